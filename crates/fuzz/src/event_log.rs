//! Arbitrary bytes as an event log: read, replayed by a policy, laid beside itself.

use halfwink_eventlog::{beside, replay_log, replayer, Family, Reader, Record};
use halfwink_policy::gating::IdleGate;
use halfwink_policy::steering::{Threshold, ThresholdParameters};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let mut log = Reader::new("fuzz", bytes);
    let mut lines = 0;
    let read = loop {
        match log.next() {
            Ok(Some(Record::Line(_))) => lines += 1,
            Ok(Some(Record::Header(_))) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = &read {
        assert!(error.line >= 1 && !error.to_string().contains(char::is_control), "{error}");
    }
    assert_eq!(log.lines(), lines);
    // Whatever it says, a policy survives it, and the replay says what it was told.
    let told = replay_log(Reader::new("fuzz", bytes), |_, place| match place.family {
        Family::Gating => Ok(replayer(IdleGate::default())),
        Family::Steering => Ok(replayer(Threshold::new(ThresholdParameters::published(4)))),
        other => Err(format!("no policy of the family {other}")),
    });
    if let Ok(report) = told {
        assert!(report.lines <= lines && report.events + report.timers <= report.lines);
    }
    if let Ok(same) = beside(Reader::new("fuzz", bytes), Reader::new("fuzz", bytes)) {
        assert!(same.first.is_none() && same.alone.is_empty());
    }
}
