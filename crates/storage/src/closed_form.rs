//! Closed forms beside the simulation: its referees.

/// The block layer's throughput by the costs of an I/O (Nellans 2014, Sec 6.1.2, as modelled): that
/// of issuers which never wait for each other, of the lock, and of the CPU that hears, whichever is
/// least. Times in microseconds, throughput in I/Os a second.
#[must_use]
pub fn block_layer_iops(issuers: f64, apart_us: f64, locked_us: f64, hears_us: f64) -> f64 {
    let alone = issuers / (apart_us + locked_us);
    1e6 * alone.min(1.0 / locked_us).min(1.0 / hears_us)
}

/// Mean wait and stay of customers that come at random to one server of constant service (M/D/1),
/// in units of the service, at this load below 1.
#[must_use]
pub fn constant_service_stay(load: f64) -> f64 {
    1.0 + load / (2.0 * (1.0 - load))
}

/// Throughput of `customers` that think for a mean time and are served by one server for another,
/// both exponential (the machine-repairman model), in customers per unit of time.
#[must_use]
pub fn repairman_throughput(customers: u32, think: f64, service: f64) -> f64 {
    // Probability that nobody is at the server: 1 / sum of n! / (n-k)! (service / think)^k.
    let ratio = service / think;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 0..customers {
        // Each term from the one before: the factorials themselves overflow from 171 customers on.
        term *= f64::from(customers - k) * ratio;
        sum += term;
    }
    (1.0 - 1.0 / sum) / service
}
