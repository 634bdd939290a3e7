//! The same hosts over a packet switch: nobody waits for a turn.

use super::books::packet_books;
use super::{Counts, Run, Setting, WorldError};
use crate::world::sync::Gaps;

/// Plays all-to-all datagrams over a packet switch that every host loads as it can: each packet
/// arrives (Strong 2013, Fig 4.18, EPS-UDP). In closed form, since nothing disturbs it.
///
/// # Errors
/// If its books do not balance.
pub fn play_packets(setting: &Setting) -> Result<Run, WorldError> {
    let hosts = setting.hosts;
    let (count, duration) = (u64::from(hosts.count), setting.duration);
    let bits = hosts.send_gbps * 1e9 * duration.as_s();
    let of_pair = (bits / f64::from(hosts.frame_bytes) / 8.0 / (count - 1) as f64) as u64;
    let is_self = |n: u64| n.is_multiple_of(count + 1);
    let delivered = (0..count * count).map(|n| if is_self(n) { 0 } else { of_pair }).collect();
    let counts = Counts { sent: of_pair * count * (count - 1), ..Counts::default() };
    let books = packet_books(setting, duration)?;
    Ok(Run { duration, slots: 0, up: duration, counts, gaps: Gaps::default(), delivered, books })
}
