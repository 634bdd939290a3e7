//! The arbiter of a network that plans every packet, and tells receivers too (Gottschlag 2016, Sec
//! 4.1.3 and 4.1.4; the arbiter itself: Fastpass, Perry 2014).
//!
//! ```text
//!   sender ── Request(receiver, port, packets) ──▶ arbiter ── Grant(slots) ──▶ sender, in time
//!                                                     │                          packet ──┐
//!                                                     └─ Announcement(port, slot) ──▶ receiver
//! ```
//!
//! Time is cut in slots of a full packet. In a slot every host sends and receives at most one; the
//! network between is taken to have a path for each such set (assumption: full bisection
//! bandwidth). Pure: what is random comes in with each call.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

/// Knobs of an [`Arbiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArbiterParameters {
    /// Hosts, all of which send and receive.
    pub hosts: u16,
    /// Length of a slot.
    pub slot: Time,
    /// Time from a request to the first slot that it can be granted: the planning horizon.
    pub ahead: Time,
}

impl ArbiterParameters {
    /// Slots of 1.23 us: 1500 bytes at 10 Gbit/s with what is around them (assumption). Schedules
    /// are made 65 us ahead (Gottschlag 2016, Sec 4.1.3; 60 us in Sec 5.1 and 6.6).
    #[must_use]
    pub const fn published(hosts: u16) -> ArbiterParameters {
        ArbiterParameters { hosts, slot: Time(1_230_000), ahead: Time::ns(65_000) }
    }
}

/// A sender has packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Host that sends.
    pub sender: u16,
    /// Host that receives.
    pub receiver: u16,
    /// Destination port: what the thesis adds to the message.
    pub port: u16,
    /// Full packets, at least one.
    pub packets: u16,
}

/// Slots that a request is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Request that is granted.
    pub request: Request,
    /// Time at which its first packet is sent, and practically received.
    pub first: Time,
    /// Time at which its last packet is sent.
    pub last: Time,
}

/// A message to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Host that receives the message.
    pub receiver: u16,
    /// Time at which the message arrives.
    pub at: Time,
    /// Destination port of the packet.
    pub port: u16,
    /// Time at which its first packet is due.
    pub due: Time,
}

/// There is no such host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHost {
    /// Number that was found.
    pub host: u16,
    /// Number of hosts; host numbers are below it.
    pub hosts: u16,
}

impl core::fmt::Display for NoHost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "host {}: expected one below {}", self.host, self.hosts)
    }
}

impl core::error::Error for NoHost {}

/// Gives slots to packets. Allocates nothing after construction.
#[derive(Clone, Debug)]
pub struct Arbiter {
    parameters: ArbiterParameters,
    /// First free slot of each host as a sender.
    sending: Vec<u64>,
    /// First free slot of each host as a receiver.
    receiving: Vec<u64>,
}

impl Arbiter {
    /// Creates the arbiter of a network without grants.
    #[must_use]
    pub fn new(parameters: ArbiterParameters) -> Arbiter {
        let hosts = usize::from(parameters.hosts);
        let slot = parameters.slot.max(Time(1));
        Arbiter {
            parameters: ArbiterParameters { slot, ..parameters },
            sending: vec![0; hosts],
            receiving: vec![0; hosts],
        }
    }

    /// A request that came at `now`: first come, first served, and the packets of a request in
    /// slots one after the other.
    ///
    /// # Errors
    /// If there is no such host.
    pub fn request(&mut self, now: Time, request: Request) -> Result<Grant, NoHost> {
        let ArbiterParameters { hosts, slot, ahead } = self.parameters;
        let Request { sender, receiver, packets, .. } = request;
        if let Some(host) = [sender, receiver].into_iter().find(|&host| host >= hosts) {
            return Err(NoHost { host, hosts });
        }
        let from = &mut self.sending[usize::from(sender)];
        let to = &mut self.receiving[usize::from(receiver)];
        let earliest = now.saturating_add(ahead).0.div_ceil(slot.0);
        let first = earliest.max(*from).max(*to);
        let packets = u64::from(packets.max(1));
        (*from, *to) = (first + packets, first + packets);
        let at = |n: u64| Time(n.saturating_mul(slot.0));
        Ok(Grant { request, first: at(first), last: at(first + packets - 1) })
    }
}

/// Delay and errors of the announcements to receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Shortest time from a request until the receiver has its announcement.
    pub least: Time,
    /// And at most; as often anything between.
    pub most: Time,
    /// Announcements that are lost, in a million.
    pub lost_ppm: u32,
    /// Announcements of packets that do not come, for a million that do.
    pub false_ppm: u32,
}

impl Lead {
    /// Creates announcements without loss or errors (assumption: Gottschlag 2016 has no errors).
    #[must_use]
    pub const fn exact(after: Time) -> Lead {
        Lead { least: after, most: after, lost_ppm: 0, false_ppm: 0 }
    }

    /// Returns the announcement for a grant of a request that came at `now`; `None` if it is lost.
    /// `random` returns words of uniform distribution.
    pub fn tell(&self, now: Time, grant: &Grant, mut random: impl FnMut() -> u64) -> Option<Told> {
        if is_one_of(self.lost_ppm, random()) {
            return None;
        }
        let Request { receiver, port, .. } = grant.request;
        let at = now.saturating_add(self.delay(random()));
        Some(Told { receiver, at, port, due: grant.first })
    }

    /// Draws whether the receiver also gets a false announcement of another packet like this.
    pub fn tell_falsely(&self, told: &Told, mut random: impl FnMut() -> u64) -> Option<Told> {
        is_one_of(self.false_ppm, random()).then_some(*told)
    }

    fn delay(&self, random: u64) -> Time {
        let span = u128::from(self.most.saturating_sub(self.least).0) + 1;
        Time(self.least.0.saturating_add((u128::from(random) * span >> 64) as u64))
    }
}

/// True in so many of a million cases.
fn is_one_of(ppm: u32, random: u64) -> bool {
    u128::from(random) * 1_000_000 >> 64 < u128::from(ppm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(sender: u16, receiver: u16, packets: u16) -> Request {
        Request { sender, receiver, port: 80, packets }
    }

    #[test]
    fn grant_takes_the_first_free_slot_of_both_ends() {
        let mut arbiter = Arbiter::new(ArbiterParameters::published(4));
        // 65 us ahead is the middle of slot 52: 53 begins at 65.19 us.
        let first = arbiter.request(Time::ZERO, ask(0, 1, 2)).unwrap();
        assert_eq!((first.first, first.last), (Time(65_190_000), Time(66_420_000)));
        // The same receiver waits; another pair has the slot at once; a sender sends one at a time.
        let second = arbiter.request(Time::ZERO, ask(2, 1, 1)).unwrap();
        assert_eq!(second.first, Time(67_650_000));
        assert_eq!(arbiter.request(Time::ZERO, ask(3, 2, 1)).unwrap().first, Time(65_190_000));
        assert_eq!(arbiter.request(Time::ZERO, ask(0, 3, 1)).unwrap().first, Time(67_650_000));
        let late = arbiter.request(Time::ns(100_000), ask(0, 1, 1)).unwrap();
        assert_eq!(late.first, Time(1_230_000 * 135));
        let nobody = arbiter.request(Time::ZERO, ask(0, 4, 1));
        assert_eq!(nobody, Err(NoHost { host: 4, hosts: 4 }));
    }

    #[test]
    fn arbiter_announces_grant_with_lead_and_losses() {
        let mut arbiter = Arbiter::new(ArbiterParameters::published(2));
        let grant = arbiter.request(Time::ZERO, ask(0, 1, 1)).unwrap();
        let lead =
            Lead { least: Time(100), most: Time(199), lost_ppm: 250_000, false_ppm: 500_000 };
        let tell = |lost: u64, delay: u64| {
            let mut words = [lost, delay].into_iter();
            lead.tell(Time(1_000), &grant, || words.next().unwrap())
        };
        assert_eq!(tell((1 << 62) - 1, 0), None, "the first quarter is lost");
        let told = tell(1 << 62, 1 << 63).unwrap();
        assert_eq!(told, Told { receiver: 1, at: Time(1_150), port: 80, due: grant.first });
        assert_eq!(tell(u64::MAX, u64::MAX).map(|told| told.at), Some(Time(1_199)));
        assert_eq!(lead.tell_falsely(&told, || 1 << 62), Some(told));
        assert_eq!(lead.tell_falsely(&told, || 1 << 63), None);
        let exact = Lead::exact(Time(7)).tell(Time(1), &grant, || 0).unwrap();
        assert_eq!(exact.at, Time(8));
        assert_eq!(Lead::exact(Time(7)).tell_falsely(&exact, || 0), None);
    }

    proptest! {
        /// No host sends or receives two packets in one slot, and none is granted too early.
        #[test]
        fn granted_slots_never_collide(
            requests in prop::collection::vec((0u64..40, 0u16..4, 0u16..4, 1u16..4), 1..60),
        ) {
            let parameters = ArbiterParameters { hosts: 4, slot: Time(10), ahead: Time(25) };
            let mut arbiter = Arbiter::new(parameters);
            let (mut now, mut sent, mut received) = (Time::ZERO, Vec::new(), Vec::new());
            for (gap, sender, receiver, packets) in requests {
                now += Time(gap);
                let grant = arbiter.request(now, ask(sender, receiver, packets)).unwrap();
                prop_assert!(grant.first >= now + Time(25));
                for slot in grant.first.0 / 10..=grant.last.0 / 10 {
                    sent.push((sender, slot));
                    received.push((receiver, slot));
                }
                prop_assert_eq!((grant.last - grant.first).0 / 10 + 1, u64::from(packets));
            }
            for mut taken in [sent, received] {
                let all = taken.len();
                taken.sort_unstable();
                taken.dedup();
                prop_assert_eq!(taken.len(), all);
            }
        }
    }
}
