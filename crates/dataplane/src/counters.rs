//! What was done with packets, and why.

use std::ops::AddAssign;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Reason why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DropReason { $($(#[$doc])* $name,)* }

        impl DropReason {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name,)*];

            /// Returns the name that tables use.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }

        const REASONS: usize = [$($text,)*].len();
    };
}

drop_reasons! {
    /// The frame ends before its headers or its stated length do.
    Short = "short",
    /// The port does not exist.
    NoPort = "no_port",
    /// A VLAN tag: there are no VLANs here.
    Vlan = "vlan",
    /// An EtherType that is not forwarded.
    EtherType = "ethertype",
    /// The frame is for another Ethernet address.
    NotForUs = "not_for_us",
    /// Version or lengths in a header cannot be.
    BadHeader = "bad_header",
    /// A checksum is wrong.
    BadChecksum = "bad_checksum",
    /// A source or destination that must not be on a wire (RFC 1812, 5.3.7).
    Martian = "martian",
    /// The sender chose the route (RFC 5095, RFC 7126, 4.3).
    SourceRoute = "source_route",
    /// The destination is a broadcast address; those are not forwarded (RFC 2644).
    Broadcast = "broadcast",
    /// The destination is a multicast address; there is no multicast routing.
    Multicast = "multicast",
    /// Source or destination is an IPv6 link-local address.
    LinkLocal = "link_local",
    /// TTL or hop limit has run out.
    TtlExceeded = "ttl_exceeded",
    /// No prefix of the table holds the destination.
    NoRoute = "no_route",
    /// The route is a black hole, which sends no error.
    Blackhole = "blackhole",
    /// The route marks the destination as unreachable.
    Unreachable = "unreachable",
    /// Longer than the next link's MTU and not to be fragmented.
    TooBig = "too_big",
    /// The neighbour does not answer.
    HostUnreachable = "host_unreachable",
    /// Too many packets wait for the neighbour, or too many neighbours are being asked for.
    QueueFull = "queue_full",
    /// The packet is for the router itself, which does not serve it.
    Unwanted = "unwanted",
    /// An ARP or neighbour discovery message that makes no sense.
    BadNeighbour = "bad_neighbour",
    /// No room around the frame to grow into.
    NoRoom = "no_room",
    /// ESP with an SPI that no association has.
    EspUnknown = "esp_unknown",
    /// ESP whose sequence number was seen or is too old (RFC 4303, 3.4.3).
    EspReplay = "esp_replay",
    /// ESP that was not made with the key, or changed on its way.
    EspAuthentication = "esp_authentication",
    /// ESP with a padding, next header or inner packet that cannot be.
    EspInner = "esp_inner",
    /// An inner packet that the association is not for.
    EspSelector = "esp_selector",
    /// The association has used all its sequence numbers.
    EspExhausted = "esp_exhausted",
    /// No sequence number is left whose use has been recorded.
    EspUnreserved = "esp_unreserved",
    /// ESP whose sequence number is beyond what has been recorded.
    EspUnrecorded = "esp_unrecorded",
    /// The association has carried all that it may.
    EspExpired = "esp_expired",
    /// The packet is for a tunnel that has no key now.
    EspNoKey = "esp_no_key",
    /// A packet in the clear that should have come by a tunnel.
    EspClear = "esp_clear",
    /// The packet belongs to a key exchange, which the kernel's daemon has received as well.
    Ike = "ike",
    /// An encoded packet that cannot be.
    RedundancyBad = "redundancy_bad",
    /// An encoded packet refers to one that was lost, or is gone from the store.
    RedundancyMissing = "redundancy_missing",
    /// A restored packet is not the one that was sent.
    RedundancyMismatch = "redundancy_mismatch",
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one worker since its start. Plain numbers: sum the workers' with `+=`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            drops: [u64; REASONS],
        }

        impl Default for Counters {
            fn default() -> Counters {
                Counters { $($name: 0,)* drops: [0; REASONS] }
            }
        }

        impl AddAssign<&Counters> for Counters {
            fn add_assign(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
                for (mine, theirs) in self.drops.iter_mut().zip(&other.drops) {
                    *mine += theirs;
                }
            }
        }

        impl Counters {
            /// Every counter by name, those of drops as `drop_REASON`.
            pub fn rows(&self) -> impl Iterator<Item = (String, u64)> + '_ {
                let plain = [$((stringify!($name), self.$name),)*];
                let plain = plain.into_iter().map(|(name, value)| (name.to_owned(), value));
                let drops = DropReason::ALL.iter();
                plain.chain(drops.map(|&r| (format!("drop_{}", r.name()), self.dropped(r))))
            }
        }
    };
}

counters! {
    /// Frames given to `process`.
    received,
    /// Packets sent on, each once even if in fragments, those that were held included.
    forwarded,
    /// Bytes of those, Ethernet headers included.
    forwarded_bytes,
    /// Frames that were for the router itself.
    consumed,
    /// Packets that had to wait for a neighbour's address; they are forwarded or dropped later.
    held,
    /// Packets that went in fragments.
    fragmented,
    /// Number of fragments sent.
    fragments,
    /// Packets that the router itself made, of all kinds.
    sent,
    /// ARP requests and neighbour solicitations sent.
    neighbour_requests,
    /// ARP replies and neighbour advertisements sent.
    neighbour_replies,
    /// Neighbours that were learnt or changed.
    neighbours_learnt,
    /// ICMP and ICMPv6 echo requests answered.
    echo_replies,
    /// ICMP and ICMPv6 errors sent.
    icmp_errors,
    /// ICMP errors not sent, because of their rate.
    icmp_suppressed,
    /// Flows begun: the first packet, or the first after a time-out.
    flows_begun,
    /// Number of flow records exported.
    flows_exported,
    /// Flows that had to make room for others.
    flows_evicted,
    /// IPv6 packets that version 5 has no place for.
    flows_uncounted,
    /// Number of export datagrams sent.
    exports,
    /// Number of packets encrypted.
    esp_encrypted,
    /// Number of packets decrypted.
    esp_decrypted,
    /// Packets in which bytes were replaced by references.
    redundancy_encoded,
    /// Number of packets restored.
    redundancy_decoded,
    /// Bytes that did not go over the link.
    redundancy_saved_bytes,
    /// Packets of the other end's encoder that could not be restored there, as it told.
    redundancy_refused,
}

impl Counters {
    /// Packets dropped for one reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Returns the number of packets dropped.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.drops.iter().sum()
    }

    pub(crate) fn drop_one(&mut self, reason: DropReason) {
        self.drop_many(reason, 1);
    }

    pub(crate) fn drop_many(&mut self, reason: DropReason, packets: u64) {
        self.drops[reason as usize] += packets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_sum_and_every_reason_has_a_name_of_its_own() {
        let mut a = Counters::default();
        for &reason in DropReason::ALL {
            a.drop_one(reason);
        }
        a.received = 40;
        let mut sum = a.clone();
        sum += &a;
        assert_eq!(sum.received, 80);
        assert_eq!(sum.drops(), 2 * DropReason::ALL.len() as u64);
        let rows: std::collections::BTreeMap<String, u64> = sum.rows().collect();
        assert_eq!(rows.len(), sum.rows().count());
        assert_eq!(rows["drop_ttl_exceeded"], 2);
    }
}
