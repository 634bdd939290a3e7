//! Collective communication of training jobs as flows (Thakur 2005, *Optimization of Collective
//! Communication Operations in MPICH*; Patarasuk 2009 for rings).

use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use super::traffic::{Flow, Traffic};

/// Collective operations between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Gives every server the sum of all data, by a ring: `2 (n - 1)` steps of an `n`th.
    RingAllReduce,
    /// Gives every server the sum of all data, by a binary tree to its root and back.
    TreeAllReduce,
    /// Each has a part of the sum: the first half of a ring's steps.
    ReduceScatter,
    /// Gives every server all parts: the other half of the ring.
    AllGather,
    /// Sends an `n`th from each server to each other (mixture of experts).
    AllToAll,
    /// Sends from each server to the next, one after the other (stages of a pipeline).
    Pipeline,
    /// Sends the first server's data to all, by a binary tree.
    Broadcast,
}

impl Collective {
    /// Returns the number of flows between `n` servers.
    #[must_use]
    pub fn flows(self, n: usize) -> usize {
        let others = n.saturating_sub(1);
        match self {
            Collective::RingAllReduce => 2 * others * n,
            Collective::ReduceScatter | Collective::AllGather | Collective::AllToAll => others * n,
            Collective::TreeAllReduce => 2 * others,
            Collective::Pipeline | Collective::Broadcast => others,
        }
    }
}

/// Servers of a collective, their data, their group, and the flows that each waits for.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// Servers, in the order of a ring.
    pub servers: &'a [u32],
    /// Data of each server, in bytes.
    pub bytes: f64,
    /// Data of each server in bytes if they differ, for [`Collective::AllToAll`] only; otherwise
    /// empty.
    pub uneven: &'a [f64],
    /// Group of their flows.
    pub group: u32,
    /// Flows that must have ended, for each server; empty if there are none.
    pub after: &'a [Vec<u32>],
}

impl Members<'_> {
    fn before(&self, place: usize) -> &[u32] {
        self.after.get(place).map_or(&[], Vec::as_slice)
    }

    fn flow(&self, from: usize, to: usize, bytes: f64) -> Flow {
        let (from, to) = (self.servers[from], self.servers[to]);
        Flow { from, to, bytes, after: Time::ZERO, group: self.group }
    }
}

/// Adds flows; for each server, those after which it goes on.
pub fn add(traffic: &mut Traffic, what: Collective, members: &Members) -> Vec<Vec<u32>> {
    let n = members.servers.len();
    // A group of one has nothing to send, and goes on at once.
    if n < 2 {
        return (0..n).map(|place| members.before(place).to_vec()).collect();
    }
    match what {
        Collective::RingAllReduce => ring(traffic, members, 2 * (n - 1)),
        Collective::ReduceScatter | Collective::AllGather => ring(traffic, members, n - 1),
        Collective::TreeAllReduce => tree(traffic, members),
        Collective::AllToAll => all_to_all(traffic, members),
        Collective::Pipeline => pipeline(traffic, members),
        Collective::Broadcast => broadcast(traffic, members),
    }
}

/// In each step, each server sends to the next one the `n`th that it received in the step before.
fn ring(traffic: &mut Traffic, members: &Members, steps: usize) -> Vec<Vec<u32>> {
    let n = members.servers.len();
    let mut last: Vec<Vec<u32>> = (0..n).map(|place| members.before(place).to_vec()).collect();
    for _ in 0..steps {
        let sent: Vec<u32> = (0..n)
            .map(|from| {
                let to = (from + 1) % n;
                traffic.add(members.flow(from, to, members.bytes / n as f64), &last[from])
            })
            .collect();
        // A step ends at a server when it has sent, and received from the one before.
        last = (0..n).map(|place| vec![sent[place], sent[(place + n - 1) % n]]).collect();
    }
    last
}

/// Children `2 p + 1` and `2 p + 2` of place `p`: sums go up, the result comes down.
fn tree(traffic: &mut Traffic, members: &Members) -> Vec<Vec<u32>> {
    let n = members.servers.len();
    let mut received: Vec<Vec<u32>> = (0..n).map(|place| members.before(place).to_vec()).collect();
    // From the last place: children come before their parents, whose sums contain theirs.
    for place in (1..n).rev() {
        let parent = (place - 1) / 2;
        let up = traffic.add(members.flow(place, parent, members.bytes), &received[place]);
        received[parent].push(up);
    }
    for place in 1..n {
        let parent = (place - 1) / 2;
        let down = traffic.add(members.flow(parent, place, members.bytes), &received[parent]);
        // The flow from its parent waited for the root, and so for all that it waited for itself.
        received[place] = vec![down];
    }
    received
}

/// Broadcasts down the same tree; a server that has the data forwards it once the other is ready.
fn broadcast(traffic: &mut Traffic, members: &Members) -> Vec<Vec<u32>> {
    let n = members.servers.len();
    let mut last: Vec<Vec<u32>> = vec![vec![]; n];
    let mut has: Vec<Vec<u32>> = (0..n).map(|place| members.before(place).to_vec()).collect();
    for place in 1..n {
        let parent = (place - 1) / 2;
        let both = [&has[parent][..], &has[place]].concat();
        let down = traffic.add(members.flow(parent, place, members.bytes), &both);
        has[place] = vec![down];
        last[parent].push(down);
        last[place].push(down);
    }
    last
}

fn all_to_all(traffic: &mut Traffic, members: &Members) -> Vec<Vec<u32>> {
    let n = members.servers.len();
    let mut last = vec![Vec::new(); n];
    for from in 0..n {
        for step in 1..n {
            let to = (from + step) % n;
            let bytes = members.uneven.get(from).unwrap_or(&members.bytes);
            let flow = members.flow(from, to, bytes / n as f64);
            let sent = traffic.add(flow, members.before(from));
            last[from].push(sent);
            last[to].push(sent);
        }
    }
    last
}

fn pipeline(traffic: &mut Traffic, members: &Members) -> Vec<Vec<u32>> {
    let n = members.servers.len();
    let mut last: Vec<Vec<u32>> = (0..n).map(|place| members.before(place).to_vec()).collect();
    for from in 0..n - 1 {
        let sent = traffic.add(members.flow(from, from + 1, members.bytes), &last[from]);
        last[from] = vec![sent];
        last[from + 1].push(sent);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(what: Collective, n: u32) -> (Traffic, Vec<Vec<u32>>) {
        let mut traffic = Traffic::default();
        let servers: Vec<u32> = (0..n).collect();
        let members =
            Members { servers: &servers, bytes: 120.0, uneven: &[], group: 0, after: &[] };
        let last = add(&mut traffic, what, &members);
        traffic.close();
        (traffic, last)
    }

    /// The bandwidth terms of Thakur 2005, Table 1, for each server: `2 (n-1)/n`, `(n-1)/n`.
    #[test]
    fn everybody_sends_what_the_closed_forms_say() {
        for (what, sent) in [
            (Collective::RingAllReduce, 2.0 * 5.0 * 20.0),
            (Collective::ReduceScatter, 5.0 * 20.0),
            (Collective::AllGather, 5.0 * 20.0),
            (Collective::AllToAll, 5.0 * 20.0),
        ] {
            let (traffic, last) = flows(what, 6);
            for server in 0..6 {
                let own = traffic.flows().iter().filter(|flow| flow.from == server);
                assert_eq!(own.map(|flow| flow.bytes).sum::<f64>(), sent, "{what:?}");
            }
            assert_eq!(last.len(), 6);
        }
        assert_eq!(flows(Collective::TreeAllReduce, 7).0.flows().len(), 12);
        assert_eq!(flows(Collective::Pipeline, 4).0.flows().len(), 3);
        assert!(flows(Collective::RingAllReduce, 1).0.flows().is_empty());
    }

    #[test]
    fn steps_of_a_ring_wait_for_the_one_before() {
        let (traffic, _) = flows(Collective::RingAllReduce, 3);
        // Flow 3 is the second step of server 0: after its first one, and that from server 2.
        assert_eq!(traffic.waits_for()[3], 2);
        assert_eq!(traffic.waiting(2), [(2, 3), (2, 5)]);
    }
}
