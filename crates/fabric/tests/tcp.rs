//! TCP over one bottleneck against closed forms.

use halfwink_fabric::tcp::{Algorithm, Loss, Parameters, Pipe, Report};
use halfwink_units::Time;

const ROUND_TRIP: Time = Time::ns(100_000_000);

fn parameters(algorithm: Algorithm) -> Parameters {
    let least_timeout = Time::ns(200_000_000);
    Parameters { algorithm, initial: 10.0, window: 1 << 20, least_timeout }
}

/// A wide link that loses some.
fn wide(loss: Loss) -> Pipe {
    let segment = Time::ns(1_000);
    Pipe { segment, round_trip: ROUND_TRIP, room: 1 << 30, mark: 1 << 30, loss, every: 1 }
}

fn play(pipe: &Pipe, algorithm: Algorithm, seconds: u64) -> Report {
    pipe.play(parameters(algorithm), Time::ns(seconds * 1_000_000_000), 1)
}

#[test]
fn what_is_lost_in_time_limits_reno_as_mathis_has_it() {
    for count in [200, 1000, 5000_u64] {
        let report = play(&wide(Loss::Every(count)), Algorithm::Reno, 3000);
        // Mathis 1997, Eq 3: W = sqrt(3 / (2 p)) on average with losses one after the other.
        let expected = (1.5 * count as f64).sqrt();
        let ratio = report.window(ROUND_TRIP) / expected;
        // It leaves out the round trip in which a segment is sent again, and parts of segments.
        assert!((1.0 - 2.0 / expected..1.01).contains(&ratio), "{count}: {ratio}");
        assert_eq!(
            (report.tally.timeouts, report.tally.again + 1),
            (0, report.tally.recoveries + 2)
        );
    }
}

#[test]
fn what_is_lost_by_chance_limits_reno_as_ott_has_it() {
    for count in [200.0, 1000.0] {
        let report = play(&wide(Loss::Chance(1.0 / count)), Algorithm::Reno, 3000);
        // Ott, Kemperman, Mathis 1996: 1.309 / sqrt(p) for losses that know nothing of each other.
        let ratio = report.window(ROUND_TRIP) / (1.309 * f64::sqrt(count));
        assert!((0.9..1.1).contains(&ratio), "{count}: {ratio}");
    }
}

#[test]
fn cubic_has_the_window_of_its_closed_form() {
    for count in [5000, 20_000_u64] {
        let report = play(&wide(Loss::Every(count)), Algorithm::Cubic, 600);
        // RFC 9438, Eq 6: 1.054 (RTT / p)^(3/4), where that is above Reno's.
        let expected = 1.054 * (ROUND_TRIP.as_s() * count as f64).powf(0.75);
        let ratio = report.window(ROUND_TRIP) / expected;
        assert!((0.9..1.1).contains(&ratio), "{count}: {ratio}");
    }
    // Where round trips are short, it is not below Reno.
    let [reno, cubic] = [Algorithm::Reno, Algorithm::Cubic].map(|algorithm| {
        let pipe = Pipe { round_trip: Time::ns(3_000_000), ..wide(Loss::Every(1000)) };
        play(&pipe, algorithm, 30).segments as f64
    });
    assert!((0.95..1.25).contains(&(cubic / reno)), "{}", cubic / reno);
}

#[test]
fn dctcp_marks_what_its_closed_form_has() {
    for (segments, mark) in [(100, 20), (400, 60)] {
        // So many segments fill the path.
        let segment = Time(ROUND_TRIP.0 / segments);
        let pipe = Pipe { segment, mark, room: 1 << 30, ..wide(Loss::None) };
        let report = play(&pipe, Algorithm::Dctcp, 400);
        // Alizadeh 2010, Eq 6: alpha = sqrt(2 / W), W = C RTT + K; Eq 10: the queue ends at K + 1.
        let expected = (2.0 / (segments + mark) as f64).sqrt();
        let ratio = report.alpha / expected;
        assert!((0.85..1.25).contains(&ratio), "{segments}: {ratio}");
        assert!((mark..mark + 4).contains(&report.queue), "{segments}: {}", report.queue);
        // The link is never idle: K is above a seventh of what fills the path.
        let used = report.segments as f64 * segment.as_s() / report.duration.as_s();
        // It begins with a window that is halved at once.
        assert!(used > 0.97, "{segments}: {used}");
    }
}

#[test]
fn a_link_is_filled_and_what_finds_no_room_is_sent_again() {
    let segment = Time::ns(1_000_000);
    for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
        let pipe = Pipe { segment, room: 100, every: 2, ..wide(Loss::None) };
        let report = play(&pipe, algorithm, 300);
        let used = report.segments as f64 * segment.as_s() / report.duration.as_s();
        assert!(used > 0.98, "{algorithm:?}: {used}");
        assert!(report.tally.again > 0 && report.queue == 100, "{report:?}");
    }
}

#[test]
fn nothing_is_lost_for_ever() {
    // One in three: copies are lost as well, and the timer has to find some.
    let report = play(&wide(Loss::Chance(0.33)), Algorithm::Cubic, 300);
    assert!(report.tally.timeouts > 10 && report.segments > 500, "{report:?}");
}
