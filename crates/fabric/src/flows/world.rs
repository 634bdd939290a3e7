//! The events of flows: they begin, days begin and end, pieces of flows arrive.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use halfwink_engine::RunControl;
use halfwink_policy::circuits::{CircuitsPolicy, Event};
use halfwink_policy::Host;
use halfwink_units::Time;

use super::books::{close, Used};
use super::error::RacksBroken;
use super::faults::Fates;
use super::parts::parts;
use super::paths::Paths;
use super::pieces::{remove, Piece, Pieces, Queues, Way, NOTHING};
use super::planes::Plane;
use super::sharing::{Needs, Sharing};
use super::{FlowsError, Run, Setting, Traffic};

/// Number of events between checks for a request to stop.
const EVENTS: u64 = 1024;
/// Hops of a flow that stays in its rack: to the switch and from it. Each circuit is one more.
const WITHIN: u32 = 2;

/// Plays flows until all have ended.
///
/// # Errors
/// If it is stopped, a flow is impossible, or the policy asks for circuits that cannot be.
pub fn play(
    setting: &Setting,
    policy: CircuitsPolicy,
    traffic: &Traffic,
    control: &RunControl,
) -> Result<Run, FlowsError> {
    check(setting, traffic)?;
    let mut world = World::new(setting, policy, traffic);
    world.play(control)?;
    world.close()
}

fn check(setting: &Setting, traffic: &Traffic) -> Result<(), FlowsError> {
    let servers = setting.racks.all_servers();
    for (flow, found) in traffic.flows().iter().enumerate() {
        let wrong = |message| FlowsError::Flow { flow: flow as u32, message };
        let most = found.from.max(found.to);
        if most >= servers {
            return Err(wrong(format!("server {most}, expected 0 to {}", servers - 1)));
        }
        let is_size = found.bytes.is_finite() && found.bytes >= 1.0;
        if found.from != found.to && !is_size {
            return Err(wrong(format!("{} bytes, expected 1 or more", found.bytes)));
        }
    }
    Ok(())
}

/// Flows of each group that have not ended.
fn groups_open(traffic: &Traffic) -> Vec<u32> {
    let mut open = vec![0; traffic.groups()];
    for flow in traffic.flows() {
        if let Some(open) = open.get_mut(flow.group as usize) {
            *open += 1;
        }
    }
    open
}

pub(super) struct World<'a> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) traffic: &'a Traffic,
    policy: Host<CircuitsPolicy>,
    pub(super) racks: usize,
    pub(super) servers: u32,
    pub(super) planes: Vec<Plane>,
    /// Planes of the machine that one of the policy stands for.
    each: u32,
    pub(super) paths: Paths,
    /// Bytes in a picosecond, of a circuit.
    pub(super) circuit: f64,
    pub(super) packet_gbps: f64,
    pub(super) capacity: Vec<f64>,
    pub(super) pieces: Pieces,
    pub(super) waiting: Queues,
    /// Pieces that need no circuit of their own.
    loose: Vec<u32>,
    /// Pieces to a rack between, by plane and rack that sends; empty where flows take no relays.
    pub(super) relays: Vec<Vec<u32>>,
    /// Demand of each pair as last reported to the policy, and the pairs for which it is not zero.
    told: Vec<u64>,
    told_of: Vec<u32>,
    /// Spare capacity of a plane's day for relays, by sending rack.
    pub(super) left_over: Vec<Option<f64>>,
    /// State of each flow: number of flows it waits for, start time, number of pieces under way.
    blocked: Vec<u32>,
    began: Vec<Time>,
    pub(super) open: Vec<u32>,
    begins: BinaryHeap<Reverse<(Time, u32)>>,
    group_spans: Vec<Option<(Time, Time)>>,
    groups_open: Vec<u32>,
    /// Pairs of the time before that have circuits.
    joined: Vec<(u32, u8)>,
    pub(super) running: Vec<u32>,
    pub(super) needs: Vec<Needs>,
    rates: Vec<f64>,
    /// Capacity that short flows leave, and the rates of the other flows.
    left: Vec<f64>,
    later: Vec<f64>,
    sharing: Sharing,
    /// Fault state, if faults are enabled; links of racks to planes come first, then to the packet
    /// switch.
    pub(super) fates: Option<Box<Fates>>,
    pub(super) packet_links: usize,
    pub(super) missed: Vec<bool>,
    /// Bytes of flows between servers that began.
    pub(super) sent: f64,
    pub(super) now: Time,
    pub(super) run: Run,
}

impl<'a> World<'a> {
    fn new(setting: &'a Setting<'a>, policy: CircuitsPolicy, traffic: &'a Traffic) -> World<'a> {
        let (racks, switch) = (setting.racks, setting.switch);
        let count = usize::from(racks.count);
        let has_circuits = policy.has_circuits();
        let planes = if has_circuits { policy.planes().min(racks.planes) } else { 0 };
        // A policy of fewer planes joins several alike: one of the run has the sum of their rates.
        let each = u32::from(racks.planes) / u32::from(planes.max(1));
        // Gb/s are 1e-3 bit/ps.
        let rate = |gbps: f64| gbps * 1e-3 / 8.0 * racks.goodput;
        let all = f64::from(racks.planes) * switch.port_gbps;
        // Without circuits packets have their rate: techniques compare at one bandwidth.
        let packet_gbps = if has_circuits { racks.packet_gbps } else { all };
        let circuit = rate(switch.port_gbps) * f64::from(each);
        let servers = racks.all_servers();
        let mut capacity = vec![rate(racks.server_gbps); 2 * servers as usize];
        capacity.extend(vec![circuit; usize::from(planes) * count]);
        capacity.extend(vec![rate(packet_gbps); 2 * count]);
        if setting.routes.even_parts {
            capacity.extend(vec![0.0; parts(planes, servers)]);
        }
        let flows = traffic.flows();
        let packet_links = (packet_gbps / switch.port_gbps).ceil() as usize;
        let links = usize::from(planes) + packet_links;
        let fates = Fates::new(&racks.faults, setting.seed, count, links).map(Box::new);
        let begins = flows.iter().zip(0..).filter(|(_, n)| traffic.waits_for()[*n as usize] == 0);
        World {
            begins: begins.map(|(flow, n)| Reverse((flow.after, n))).collect(),
            policy: Host::new(policy),
            racks: count,
            servers,
            planes: (0..planes).map(|n| Plane::new(n, racks.count)).collect(),
            each,
            paths: Paths::new(racks.count),
            circuit,
            packet_gbps,
            sharing: Sharing::new(capacity.len()),
            capacity,
            pieces: Pieces::default(),
            waiting: Queues::new(count),
            loose: vec![],
            relays: if setting.routes.relays {
                vec![vec![]; usize::from(planes) * count]
            } else {
                vec![]
            },
            told: vec![0; count * count],
            told_of: vec![],
            left_over: vec![None; count],
            blocked: traffic.waits_for().to_vec(),
            began: vec![Time::ZERO; flows.len()],
            open: vec![0; flows.len()],
            group_spans: vec![None; traffic.groups()],
            groups_open: groups_open(traffic),
            joined: vec![],
            running: vec![],
            needs: vec![],
            rates: vec![],
            left: vec![],
            later: vec![],
            fates,
            packet_links,
            missed: vec![false; count],
            sent: 0.0,
            now: Time::ZERO,
            run: Run::begin(flows.len()),
            setting,
            traffic,
        }
    }

    fn play(&mut self, control: &RunControl) -> Result<(), FlowsError> {
        let mut done = 0;
        while !(self.pieces.are_none() && self.begins.is_empty()) {
            if self.run.events.is_multiple_of(EVENTS) {
                control.report(done)?;
            }
            self.run.events += 1;
            let next = self.next();
            if next == Time::NEVER {
                // What is left waits for circuits that never come.
                if let Some(&piece) = self.running.first() {
                    return Err(RacksBroken::Stranded(self.pieces[piece].flow).into());
                }
                break;
            }
            if next > self.setting.at_most {
                self.advance(self.setting.at_most);
                break;
            }
            self.advance(next);
            // Before the boundaries: what arrives at the end of a day is not cut off by the night.
            done += self.arrivals()?;
            while let Some(&Reverse((at, flow))) = self.begins.peek() {
                if at > self.now {
                    break;
                }
                self.begins.pop();
                self.begin(flow)?;
            }
            self.links_change();
            for plane in 0..self.planes.len() {
                while self.planes[plane].until <= self.now {
                    self.boundary(plane)?;
                }
            }
            self.share();
            if self.fates.is_some() {
                self.check_circuits()?;
            }
        }
        Ok(())
    }

    /// Returns the time of the next event.
    fn next(&mut self) -> Time {
        let begin = self.begins.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        if self.pieces.are_none() && self.policy.policy().is_periodic() {
            let night = self.night();
            for plane in &mut self.planes {
                plane.leap(begin.min(self.setting.at_most), night);
            }
        }
        let boundary = self.planes.iter().map(|plane| plane.until).min().unwrap_or(Time::NEVER);
        let mut first = begin.min(boundary);
        let left = self.running.iter().zip(&self.rates);
        let ps = left.map(|(&piece, &rate)| self.pieces[piece].bytes.max(0.0) / rate);
        let ps = ps.fold(f64::INFINITY, f64::min);
        if ps < f64::INFINITY {
            // Rounded up, and at least one picosecond: rounded down, a rest of a byte would be due
            // at the same time for ever.
            first = first.min(self.now.saturating_add(Time(ps.ceil().max(1.0) as u64)));
        }
        if let Some(fates) = &self.fates {
            // If all is up and nothing else comes, nothing that comes up helps.
            if first != Time::NEVER || !fates.all_up() {
                first = first.min(fates.next);
            }
        }
        first.max(self.now)
    }

    fn advance(&mut self, to: Time) {
        let ps = (to - self.now).0 as f64;
        for (&piece, &rate) in self.running.iter().zip(&self.rates) {
            self.pieces[piece].bytes -= rate * ps;
        }
        self.now = to;
    }

    /// Pieces of which nothing is left. How many flows ended.
    fn arrivals(&mut self) -> Result<u64, RacksBroken> {
        let mut done = 0;
        for n in 0..self.running.len() {
            let number = self.running[n];
            let piece = self.pieces[number];
            if piece.bytes > NOTHING {
                continue;
            }
            let hops = match piece.way {
                Way::Within => WITHIN,
                Way::Packets => self.setting.racks.packet_hops,
                // What it needs are two servers' ports, and circuits.
                Way::Hops => WITHIN + self.needs[n].as_slice().len() as u32 - 2,
                Way::Direct => WITHIN + 1,
                Way::Relay => {
                    self.take_relay(number);
                    self.wait_between(number, piece.to, piece.size);
                    continue;
                }
            };
            self.count_bytes(&piece, hops);
            self.take(number);
            self.pieces.remove(number);
            self.open[piece.flow as usize] -= 1;
            if self.open[piece.flow as usize] == 0 {
                done += 1;
                self.end(piece.flow, hops)?;
            }
        }
        Ok(done)
    }

    fn count_bytes(&mut self, piece: &Piece, hops: u32) {
        self.run.delivered += piece.size;
        match piece.way {
            Way::Packets => self.run.on_packets += piece.size,
            Way::Hops => self.run.on_circuits += piece.size * f64::from(hops - WITHIN),
            Way::Direct => self.run.on_circuits += piece.size,
            Way::Within | Way::Relay => {}
        }
    }

    /// Takes a piece from where it is listed.
    pub(super) fn take(&mut self, number: u32) {
        let piece = self.pieces[number];
        match piece.way {
            Way::Direct => self.waiting.take(&piece, number),
            _ => remove(&mut self.loose, number),
        }
    }

    /// A flow's last piece arrived.
    fn end(&mut self, number: u32, hops: u32) -> Result<(), RacksBroken> {
        let flow = self.traffic.flows()[number as usize];
        let at = self.now + Time::from_ns(1e3 * self.setting.racks.way_us(hops, flow.bytes));
        let (took, capacity) =
            (at - self.began[number as usize], self.capacity[flow.from as usize]);
        // Forgives what `arrivals` forgives, and rounding of rates.
        let least = Time(((flow.bytes - NOTHING) / capacity * (1.0 - 1e-9)) as u64);
        if took < least {
            return Err(RacksBroken::TooFast(number, took, least));
        }
        self.ended(number, flow.group, at);
        Ok(())
    }

    fn ended(&mut self, number: u32, group: u32, at: Time) {
        let began = self.began[number as usize];
        self.run.times[number as usize] = Some(at - began);
        self.run.duration = self.run.duration.max(at);
        if let Some(open) = self.groups_open.get_mut(group as usize) {
            *open -= 1;
            let span = &mut self.group_spans[group as usize];
            let (first, last) = span.unwrap_or((began, at));
            *span = Some((first.min(began), last.max(at)));
        }
        for &(_, next) in self.traffic.waiting(number) {
            self.blocked[next as usize] -= 1;
            if self.blocked[next as usize] == 0 {
                let after = self.traffic.flows()[next as usize].after;
                self.begins.push(Reverse((at + after, next)));
            }
        }
    }

    fn begin(&mut self, number: u32) -> Result<(), RacksBroken> {
        let flow = self.traffic.flows()[number as usize];
        if flow.from == flow.to {
            // Takes its time and nothing else: that is over now.
            self.began[number as usize] = self.now.saturating_sub(flow.after);
            self.ended(number, flow.group, self.now);
            return Ok(());
        }
        self.began[number as usize] = self.now;
        let racks = self.setting.racks;
        let (at, to) = (racks.rack_of(flow.from), racks.rack_of(flow.to));
        let packets_beside = self.packet_gbps > 0.0 && flow.bytes < racks.packet_below_bytes;
        let way = if at == to {
            Way::Within
        } else if self.planes.is_empty() || packets_beside {
            Way::Packets
        } else if self.is_short(flow.bytes) {
            Way::Hops
        } else {
            Way::Direct
        };
        let bytes = flow.bytes;
        self.sent += bytes;
        self.open[number as usize] = 1;
        let piece = self.pieces.add(Piece {
            flow: number,
            at,
            to,
            is_at_server: true,
            way,
            bytes,
            size: bytes,
        });
        match way {
            Way::Direct => self.waiting.push(&self.pieces[piece], piece),
            _ => self.loose.push(piece),
        }
        Ok(())
    }

    /// Returns whether a flow may use circuits that are up for other pairs. Policies that decide by
    /// demand are excluded, since such a flow adds no demand for its own circuit.
    fn is_short(&self, bytes: f64) -> bool {
        bytes < self.setting.routes.hops_below_bytes && !self.policy.policy().wants_demand()
    }

    fn night(&self) -> Time {
        Time::from_ns(1e3 * self.setting.switch.reconfiguration_us)
    }

    fn boundary(&mut self, number: usize) -> Result<(), FlowsError> {
        let night = self.night();
        self.paths.forget();
        if self.planes[number].is_up {
            self.end_relays(number);
            if self.policy.policy().wants_demand() {
                self.tell_demand();
            }
            self.planes[number].dusk(self.now, night, &mut self.policy)
        } else {
            self.planes[number].dawn(self.now);
            self.dawn_faults(number);
            if self.setting.routes.even_parts {
                self.set_parts(number);
            }
            if self.setting.routes.relays {
                self.begin_relays(number);
            }
            Ok(())
        }
    }

    fn tell_demand(&mut self) {
        let told = std::mem::take(&mut self.told_of);
        // A demand that was told and is gone is told too, or the policy would serve it for ever.
        let idle = told.into_iter().filter(|&pair| self.waiting.list(pair as usize).is_empty());
        let mut pairs: Vec<u32> = idle.chain(self.waiting.busy().iter().copied()).collect();
        // By number: `busy` is in no order, and a policy's decisions must not depend on one.
        pairs.sort_unstable();
        for pair in pairs {
            let (from, to) = (pair as usize / self.racks, pair as usize % self.racks);
            let bytes = self.backlog(from, to).ceil() as u64;
            if bytes > 0 {
                self.told_of.push(pair);
            }
            if bytes != self.told[pair as usize] {
                self.told[pair as usize] = bytes;
                let event = Event::Demand { from: from as u16, to: to as u16, bytes };
                self.policy.deliver(self.now, &event, |_, _| ());
            }
        }
    }

    pub(super) fn backlog(&self, from: usize, to: usize) -> f64 {
        let waiting = self.waiting.list(self.waiting.pair(from, to)).iter();
        waiting.map(|&n| self.pieces[n].bytes.max(0.0)).sum()
    }

    pub(super) fn wait(&mut self, number: u32, at: u16, is_at_server: bool, bytes: f64) {
        let flow = self.traffic.flows()[self.pieces[number].flow as usize];
        let to = self.setting.racks.rack_of(flow.to);
        let piece = &mut self.pieces[number];
        *piece = Piece { at, to, is_at_server, way: Way::Direct, bytes, size: bytes, ..*piece };
        let piece = *piece;
        // With the rest of its flow, if that waits here too.
        let pair = self.waiting.pair(usize::from(at), usize::from(to));
        let is_same =
            |other: &Piece| other.flow == piece.flow && other.is_at_server == is_at_server;
        let same = self.waiting.list(pair).iter().find(|&&other| is_same(&self.pieces[other]));
        let Some(&same) = same else { return self.waiting.push(&piece, number) };
        let same = &mut self.pieces[same];
        (same.bytes, same.size) = (same.bytes + bytes, same.size + bytes);
        self.pieces.remove(number);
        self.open[piece.flow as usize] -= 1;
    }

    /// Finds who can send now, and how fast. Flows that do not wait for a circuit of their own go
    /// before those that would (Opera, Sec 3.2): these have what is left.
    fn share(&mut self) {
        self.running.clear();
        self.needs.clear();
        self.run_loose(true);
        let first = self.needs.len();
        self.sharing.rates(&self.capacity, &self.needs, &mut self.rates);
        if first > 0 {
            self.left.clone_from(&self.capacity);
            for (needs, rate) in self.needs.iter().zip(&self.rates) {
                for &item in needs.as_slice() {
                    self.left[item as usize] = (self.left[item as usize] - rate).max(0.0);
                }
            }
        }
        self.run_loose(false);
        self.run_circuits();
        let capacity = if first > 0 { &self.left } else { &self.capacity };
        self.sharing.rates(capacity, &self.needs[first..], &mut self.later);
        self.rates.extend_from_slice(&self.later);
    }

    fn run_loose(&mut self, short: bool) {
        for n in 0..self.loose.len() {
            let number = self.loose[n];
            if (self.pieces[number].way == Way::Hops) != short {
                continue;
            }
            if let Some(needs) = self.loose_needs(number) {
                self.running.push(number);
                self.needs.push(needs);
            }
        }
    }

    fn run_circuits(&mut self) {
        let mut joined = std::mem::take(&mut self.joined);
        self.waiting.joined(&self.planes, &mut joined);
        for &(place, plane) in &joined {
            let pair = self.waiting.busy()[place as usize] as usize;
            for n in 0..self.waiting.list(pair).len() {
                let number = self.waiting.list(pair)[n];
                self.run_on_circuit(number, usize::from(plane), pair / self.racks);
            }
        }
        self.joined = joined;
        for n in 0..self.relays.len() {
            if self.planes[n / self.racks].to[n % self.racks].is_none() {
                continue;
            }
            for place in 0..self.relays[n].len() {
                self.run_on_circuit(self.relays[n][place], n / self.racks, n % self.racks);
            }
        }
    }

    fn run_on_circuit(&mut self, number: u32, plane: usize, rack: usize) {
        let (piece, mut needs) = (self.pieces[number], Needs::default());
        let flow = self.traffic.flows()[piece.flow as usize];
        needs.push(self.circuit_item(plane as u8, rack as u16));
        if self.setting.routes.even_parts {
            self.push_parts(&piece, plane, &mut needs);
        }
        if piece.is_at_server {
            needs.push(flow.from);
        }
        if piece.way == Way::Direct {
            needs.push(self.servers + flow.to);
        }
        self.running.push(number);
        self.needs.push(needs);
    }

    pub(super) fn circuit_item(&self, plane: u8, rack: u16) -> u32 {
        2 * self.servers + u32::from(plane) * self.racks as u32 + u32::from(rack)
    }

    fn loose_needs(&mut self, number: u32) -> Option<Needs> {
        let (piece, mut needs) = (self.pieces[number], Needs::default());
        let flow = self.traffic.flows()[piece.flow as usize];
        needs.push(flow.from);
        needs.push(self.servers + flow.to);
        match piece.way {
            Way::Packets => {
                let first = 2 * self.servers + (self.planes.len() * self.racks) as u32;
                needs.push(first + u32::from(piece.at));
                needs.push(first + self.racks as u32 + u32::from(piece.to));
            }
            Way::Hops => {
                let (first, racks, mut fits) = (2 * self.servers, self.racks as u32, true);
                let found = self.paths.find(&self.planes, piece.at, piece.to, |plane, rack| {
                    fits &= needs.push(first + u32::from(plane) * racks + u32::from(rack));
                });
                if !found || !fits {
                    return None;
                }
            }
            Way::Within | Way::Direct | Way::Relay => {}
        }
        Some(needs)
    }

    fn close(mut self) -> Result<Run, FlowsError> {
        self.check_bytes()?;
        let all_ended = self.pieces.are_none() && self.begins.is_empty();
        let at_most =
            if self.setting.at_most == Time::NEVER { self.now } else { self.setting.at_most };
        let end = if all_ended { self.run.duration.max(self.now) } else { at_most };
        let mut run = self.run;
        run.faults = self.fates.map(|fates| fates.counts).unwrap_or_default();
        let shares = end.as_s().max(1e-12) * self.planes.len() as f64;
        for plane in &mut self.planes {
            plane.close(end);
            run.days += plane.begun * u64::from(self.each);
            run.up += plane.days.as_s() / shares;
        }
        run.duration = end;
        let spans = self.group_spans.iter().zip(&self.groups_open);
        let ended = |(span, open): (&Option<(Time, Time)>, &u32)| {
            span.filter(|_| *open == 0).map(|(first, last)| last - first)
        };
        run.groups = spans.map(ended).collect();
        let used = Used { planes: &self.planes, each: self.each, packet_gbps: self.packet_gbps };
        run.books = close(self.setting, &used, end)?;
        Ok(run)
    }
}
