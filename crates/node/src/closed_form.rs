//! Queues that can be computed, which runs are held to.

/// Probability that a request finds all of `servers` busy (Erlang's C formula), at this load of
/// each server (0 to 1).
#[must_use]
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    // Erlang's B by its recursion, then C from B.
    let blocked = (1..=servers).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b));
    blocked / (1.0 - load * (1.0 - blocked))
}

/// Mean time that a request waits in M/M/c, in mean service times.
#[must_use]
pub fn mmc_wait(servers: u32, load: f64) -> f64 {
    erlang_c(servers, load) / (f64::from(servers) * (1.0 - load))
}

/// Mean time that a request waits in M/G/1 whose server needs a set-up before the first request of
/// each busy period (Welch 1964; Takagi 1991): arrival rate, first two moments of the service time
/// and of the set-up time.
#[must_use]
pub fn set_up_wait(rate: f64, service: [f64; 2], set_up: [f64; 2]) -> f64 {
    let queue = rate * service[1] / (2.0 * (1.0 - rate * service[0]));
    queue + (2.0 * set_up[0] + rate * set_up[1]) / (2.0 * (1.0 + rate * set_up[0]))
}

/// Share of time in which all of so many independent queues are empty at this load.
#[must_use]
pub fn all_idle(servers: u32, load: f64) -> f64 {
    (1.0 - load).powf(f64::from(servers))
}

/// Mean power of an idle core whose gaps are exponential and that goes from one state to a deeper
/// one after a time, and takes a set-up to leave it; over idle and set-up time together.
///
/// `gap` is the mean gap, `after` the time in the first state, `powers` those of the first state,
/// the second, and waking.
#[must_use]
pub fn two_states_power(gap: f64, after: f64, set_up: f64, powers: [f64; 3]) -> f64 {
    let deep = (-after / gap).exp();
    let times = [gap * (1.0 - deep), gap * deep, set_up * deep];
    let energy: f64 = times.iter().zip(powers).map(|(time, power)| time * power).sum();
    energy / times.iter().sum::<f64>()
}

/// Throughput and mean response time of `clients` that think for an exponential time and share one
/// queue of `servers` with exponential service: M/M/c//N, the machine repairman (Palm 1947;
/// Kleinrock 1975, Sec 3.8). Times in the unit of `service`.
#[must_use]
pub fn machine_repairman(servers: u32, clients: u32, service: f64, think: f64) -> (f64, f64) {
    let mut weights = vec![1.0];
    for n in 1..=clients {
        let comes = f64::from(clients - n + 1) / think;
        let leaves = f64::from(n.min(servers)) / service;
        let last = weights[weights.len() - 1];
        weights.push(last * comes / leaves);
    }
    let whole: f64 = weights.iter().sum();
    let busy = |n: usize| f64::from((n as u32).min(servers));
    let rate: f64 =
        weights.iter().enumerate().map(|(n, w)| w * busy(n) / service).sum::<f64>() / whole;
    (rate, f64::from(clients) / rate - think)
}

/// Returns throughput and mean response time of clients whose requests each go to one of so many
/// queues by chance, each with a server of its own: exact mean value analysis (Reiser and
/// Lavenberg 1980) of equal stations.
#[must_use]
pub fn separate_queues(queues: u32, clients: u32, service: f64, think: f64) -> (f64, f64) {
    let (mut queued, mut rate, mut answer) = (0.0, 0.0, service);
    for n in 1..=clients {
        answer = service * (1.0 + queued);
        rate = f64::from(n) / (answer + think);
        queued = rate / f64::from(queues) * answer;
    }
    (rate, answer)
}

/// Mean time for which interrupts hold requests back: the first of each for the whole `hold`,
/// those that follow for what is left of it. Poisson arrivals at `rate` a core: near `hold` at a
/// low rate, half of it at a high one.
#[must_use]
pub fn coalesced_wait(rate: f64, hold: f64) -> f64 {
    let more = rate * hold;
    hold * (1.0 + 0.5 * more) / (1.0 + more)
}
