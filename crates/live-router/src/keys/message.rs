//! What the kernel says of its security associations (XFRM over netlink), read from bytes.

use std::fmt;
use std::net::IpAddr;

use halfwink_dataplane::AeadKey;
use netlink_packet_core::{NetlinkBuffer, NlaBuffer, NlasIterator};
use netlink_packet_xfrm::constants as xfrm;
use netlink_packet_xfrm::{Address, AlgAead, Replay, ReplayEsn, UserSaId, UserSaInfo};

/// `NLMSG_ERROR` and `NLMSG_DONE` of netlink(7).
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The algorithm, as `ip xfrm` names it: AES-GCM (RFC 4106).
const ALGORITHM: &str = "rfc4106(gcm(aes))";
/// Length of the authentication tag, in bits.
const TAG_BITS: u32 = 128;
/// Bytes of `struct xfrm_usersa_info`, `struct xfrm_usersa_id` and `struct xfrm_user_expire`, whose
/// `hard` is the byte behind the first (linux/xfrm.h).
const INFO: usize = 224;
const ID: usize = 24;
const EXPIRE: usize = 232;

/// Name of an association: outer destination and SPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Outer destination of the packets.
    pub to: IpAddr,
    /// Security parameter index in the packets.
    pub spi: u32,
}

/// An association in the kernel's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association {
    /// Outer destination and SPI.
    pub name: Name,
    /// Outer source of the packets.
    pub from: IpAddr,
    /// Ties it to policies; 0 if nothing does.
    pub reqid: u32,
    /// Sequence numbers of 64 bits.
    pub esn: bool,
    /// Key and salt; or the reason why this router cannot use it.
    pub key: Result<AeadKey, String>,
    /// The last number that the kernel itself has sent by it.
    pub sent: u64,
    /// Time at which it was added, in seconds since 1970.
    pub added_s: u64,
    /// Lifetime from then on, in seconds; none if unlimited.
    pub lasts_s: Option<u64>,
    /// Packets that it may carry.
    pub packets: u64,
    /// Bytes that it may carry.
    pub bytes: u64,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An association is there, or has changed.
    There(Box<Association>),
    /// The association was removed.
    Gone(Name),
    /// All associations of ESP were removed.
    Flushed,
    /// All that there are have been told.
    End,
    /// The kernel refused: an errno.
    Refused(i32),
    /// The message is irrelevant here.
    Other,
}

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset from the first byte of the datagram.
    pub at: usize,
    /// Content that was expected.
    pub expected: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: expected {}", self.at, self.expected)
    }
}

/// All messages of a datagram, up to the first that is none.
pub fn read(datagram: &[u8]) -> impl Iterator<Item = Result<News, Malformed>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = datagram.get(at..).filter(|rest| !rest.is_empty())?;
        let here = at;
        let wrong = |expected| Malformed { at: here, expected };
        let Ok(message) = NetlinkBuffer::new_checked(rest) else {
            at = datagram.len();
            return Some(Err(wrong("a netlink header and as many bytes as it says")));
        };
        // netlink(7): messages begin at multiples of four bytes.
        at += (message.length() as usize).next_multiple_of(4);
        let (kind, body) = (message.message_type(), message.payload());
        Some(news(kind, body).map_err(wrong))
    })
}

fn news(kind: u16, body: &[u8]) -> Result<News, &'static str> {
    Ok(match kind {
        ERROR => {
            let errno = body.first_chunk().ok_or("the number of an error")?;
            match i32::from_ne_bytes(*errno) {
                // An acknowledgement.
                0 => News::Other,
                errno => News::Refused(errno.saturating_neg()),
            }
        }
        DONE => News::End,
        xfrm::XFRM_MSG_NEWSA | xfrm::XFRM_MSG_UPDSA => association(body)?,
        xfrm::XFRM_MSG_DELSA => {
            let expected = "24 bytes of struct xfrm_usersa_id";
            let id = body.get(..ID).ok_or(expected)?;
            let id = UserSaId::parse(id).map_err(|_| expected)?;
            match (id.proto, address(&id.daddr, id.family)) {
                (xfrm::IPPROTO_ESP, Some(to)) => News::Gone(Name { to, spi: id.spi }),
                _ => News::Other,
            }
        }
        xfrm::XFRM_MSG_EXPIRE => {
            let expected = "232 bytes of struct xfrm_user_expire";
            let expire = body.get(..EXPIRE).ok_or(expected)?;
            let info = UserSaInfo::parse(expire).map_err(|_| expected)?;
            // A soft one asks a daemon for a new key; the old one may be used until it has one.
            let hard = expire[INFO] != 0;
            match address(&info.id.daddr, info.family) {
                Some(to) if hard && info.id.proto == xfrm::IPPROTO_ESP => {
                    News::Gone(Name { to, spi: info.id.spi })
                }
                _ => News::Other,
            }
        }
        xfrm::XFRM_MSG_FLUSHSA => match body.first().ok_or("the protocol of a flush")? {
            // IPPROTO 0 and 255 are all of them.
            &(0 | xfrm::IPPROTO_ESP | xfrm::IPSEC_PROTO_ANY) => News::Flushed,
            _ => News::Other,
        },
        _ => News::Other,
    })
}

/// An association's attributes as far as they matter.
#[derive(Default)]
struct Attributes {
    aead: Option<AlgAead>,
    /// Names of other algorithms.
    others: Vec<String>,
    encapsulated: bool,
    sent: u64,
}

fn association(body: &[u8]) -> Result<News, &'static str> {
    let expected = "224 bytes of struct xfrm_usersa_info";
    let (head, rest) = body.split_at_checked(INFO).ok_or(expected)?;
    let info = UserSaInfo::parse(head).map_err(|_| expected)?;
    let found = attributes(rest)?;
    let ends = address(&info.saddr, info.family).zip(address(&info.id.daddr, info.family));
    let Some((from, to)) = ends.filter(|_| info.id.proto == xfrm::IPPROTO_ESP) else {
        return Ok(News::Other);
    };
    if found.aead.is_none() && found.others.is_empty() {
        // An SPI that a daemon has reserved; the key is still being agreed upon.
        return Ok(News::Other);
    }
    let lasts = [
        info.lifetime_cfg.hard_add_expires_seconds,
        // The kernel counts from its own first use, of which there is none: this is earlier.
        info.lifetime_cfg.hard_use_expires_seconds,
    ];
    Ok(News::There(Box::new(Association {
        name: Name { to, spi: info.id.spi },
        from,
        reqid: info.reqid,
        esn: info.flags & xfrm::XFRM_STATE_ESN != 0,
        key: key(&info, &found),
        sent: found.sent,
        added_s: info.lifetime_cur.add_time,
        lasts_s: lasts.into_iter().filter(|&s| s != 0).min(),
        packets: info.lifetime_cfg.hard_packet_limit,
        bytes: info.lifetime_cfg.hard_byte_limit,
    })))
}

fn attributes(bytes: &[u8]) -> Result<Attributes, &'static str> {
    let mut found = Attributes::default();
    for attribute in NlasIterator::new(bytes) {
        let attribute: NlaBuffer<&[u8]> =
            attribute.map_err(|_| "an attribute of as many bytes as it says")?;
        let value = attribute.value();
        match attribute.kind() {
            xfrm::XFRMA_ALG_AEAD => {
                let aead = AlgAead::parse(value).map_err(|_| "an xfrm_algo_aead")?;
                found.aead = Some(aead);
            }
            xfrm::XFRMA_ALG_CRYPT | xfrm::XFRMA_ALG_AUTH | xfrm::XFRMA_ALG_AUTH_TRUNC => {
                // All of them begin with 64 bytes of name (linux/xfrm.h).
                let name = name(value.get(..64).ok_or("an algorithm's name")?);
                // Authentication is told twice, the second time with its length.
                if !found.others.contains(&name) {
                    found.others.push(name);
                }
            }
            xfrm::XFRMA_ENCAP => found.encapsulated = true,
            xfrm::XFRMA_REPLAY_VAL => {
                let replay = Replay::parse(value).map_err(|_| "an xfrm_replay_state")?;
                found.sent = found.sent.max(replay.oseq.into());
            }
            xfrm::XFRMA_REPLAY_ESN_VAL => {
                let replay = ReplayEsn::parse(value).map_err(|_| "an xfrm_replay_state_esn")?;
                let sent = u64::from(replay.oseq_hi) << 32 | u64::from(replay.oseq);
                found.sent = found.sent.max(sent);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The key, if this is an association that the router can use.
fn key(info: &UserSaInfo, found: &Attributes) -> Result<AeadKey, String> {
    let wrong = |what: &str, found: &str, expected: &str| {
        Err(format!("{what}: found {found}, expected {expected}"))
    };
    if info.mode != xfrm::XFRM_MODE_TUNNEL {
        let mode = match info.mode {
            xfrm::XFRM_MODE_TRANSPORT => "transport".to_owned(),
            other => other.to_string(),
        };
        return wrong("mode", &mode, "tunnel");
    }
    let Some(aead) = &found.aead else {
        return wrong("algorithm", &found.others.join(" with "), ALGORITHM);
    };
    let algorithm = name(&aead.alg_name);
    if algorithm != ALGORITHM {
        return wrong("algorithm", &algorithm, ALGORITHM);
    }
    if aead.alg_icv_len != TAG_BITS {
        let found = format!("{} bits", aead.alg_icv_len);
        return wrong("tag of AES-GCM", &found, "128 bits");
    }
    if found.encapsulated {
        return wrong("encapsulation", "UDP (NAT traversal)", "none");
    }
    let bytes = aead.alg_key.get(..aead.alg_key_len as usize / 8).unwrap_or_default();
    if !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0) {
        // security_locked_down(LOCKDOWN_XFRM_SECRET): it tells zeros instead.
        return wrong("key", "zeros", "a key: the kernel's lockdown keeps keys to itself");
    }
    AeadKey::new(bytes).ok_or_else(|| {
        // The key itself stays out of messages.
        let found = format!("{} bits", aead.alg_key_len);
        format!("key with salt: found {found}, expected 160 or 288 bits")
    })
}

/// The text before the first zero; what cannot be shown is not.
fn name(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect()
}

fn address(address: &Address, family: u16) -> Option<IpAddr> {
    match family {
        xfrm::AF_INET => Some(address.to_ipv4().into()),
        xfrm::AF_INET6 => Some(address.to_ipv6().into()),
        _ => None,
    }
}
