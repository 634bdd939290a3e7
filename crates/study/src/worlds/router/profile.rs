//! Load profiles as they are written on the command line and in studies.

use halfwink_router::Profile;
use halfwink_techniques::router::Evaluation;
use halfwink_units::Time;

use crate::error::StudyError;

/// The rate at which packets come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Per cent of the highest rate of all cores at full speed.
    Percent(f64),
    /// A rate in packets per second.
    Pps(f64),
}

/// A load profile. Points are as long as the description's `evaluation.point_ms` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RouterProfile {
    /// The profile of the thesis' evaluation.
    #[default]
    Evaluation,
    /// Loads of equal length, with lines between them.
    Loads(Vec<Load>),
    /// Loads of equal length that change at once.
    Steps(Vec<Load>),
    /// A ramp from one load to another in so many milliseconds, each held for a point.
    Ramp(Load, Load, f64),
}

impl Load {
    fn parse(text: &str) -> Option<Load> {
        let number = |text: &str| text.trim().parse().ok().filter(|n: &f64| *n >= 0.0);
        // `pps` last, since it ends the other two as well.
        for (unit, pps) in [("Mpps", 1e6), ("kpps", 1e3), ("pps", 1.0)] {
            if let Some(count) = text.trim().strip_suffix(unit) {
                return number(count).filter(|n| n * pps <= 1e12).map(|n| Load::Pps(n * pps));
            }
        }
        number(text).filter(|percent| *percent <= 200.0).map(Load::Percent)
    }

    fn share(self, full_pps: f64) -> f64 {
        match self {
            Load::Percent(percent) => percent / 100.0,
            Load::Pps(pps) => pps / full_pps,
        }
    }
}

impl RouterProfile {
    /// Reads `evaluation`; loads in per cent or packets per second, as `5,20,80` or
    /// `100kpps,1.5Mpps`; `step:` and loads; `ramp:FROM,TO,MILLISECONDS`.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<RouterProfile, StudyError> {
        let read = |text: &str| -> Option<RouterProfile> {
            let loads =
                |text: &str| text.split(',').map(Load::parse).collect::<Option<Vec<Load>>>();
            if text == "evaluation" {
                return Some(RouterProfile::Evaluation);
            }
            if let Some(steps) = text.strip_prefix("step:") {
                return loads(steps).map(RouterProfile::Steps);
            }
            if let Some(ramp) = text.strip_prefix("ramp:") {
                let (ends, ms) = ramp.rsplit_once(',')?;
                let &[from, to] = loads(ends)?.as_slice() else { return None };
                let ms: f64 = ms.trim().parse().ok()?;
                return (0.001..=1e6).contains(&ms).then_some(RouterProfile::Ramp(from, to, ms));
            }
            loads(text).map(RouterProfile::Loads)
        };
        read(text).ok_or_else(|| {
            let message = "expected `evaluation` or loads in per cent or packets per second \
                           (5,20,80 or 100kpps,1Mpps), `step:5,80`, `ramp:5,80,2` (milliseconds)";
            StudyError::Usage(format!("unknown profile `{text}`; {message}"))
        })
    }

    /// The profile for something that can do so many packets per second.
    #[must_use]
    pub fn build(&self, evaluation: &Evaluation, full_pps: f64, seed: u64) -> Profile {
        let ms = |ms: f64| Time::from_ns(ms * 1e6);
        let point = ms(evaluation.point_ms);
        let shares = |loads: &[Load]| loads.iter().map(|load| load.share(full_pps)).collect();
        match self {
            RouterProfile::Evaluation => Profile::evaluation(evaluation, point, seed),
            RouterProfile::Loads(loads) => Profile::smooth(shares(loads), point),
            RouterProfile::Steps(loads) => Profile::steps(shares(loads), point),
            RouterProfile::Ramp(from, to, span) => {
                Profile::ramp(from.share(full_pps), to.share(full_pps), ms(*span), point)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_and_refused() {
        let parse = |text: &str| RouterProfile::parse(text).ok();
        let percent = Load::Percent;
        assert_eq!(parse("evaluation"), Some(RouterProfile::Evaluation));
        assert_eq!(parse("5, 20"), Some(RouterProfile::Loads(vec![percent(5.0), percent(20.0)])));
        let steps = vec![Load::Pps(1e5), Load::Pps(1.5e6), Load::Pps(64.0)];
        assert_eq!(parse("step:100kpps,1.5Mpps,64pps"), Some(RouterProfile::Steps(steps)));
        let ramp = RouterProfile::Ramp(percent(5.0), Load::Pps(2e6), 2.5);
        assert_eq!(parse("ramp:5,2Mpps,2.5"), Some(ramp));
        for wrong in
            ["", "x", "5,", "201", "-1", "NaN", "step:", "ramp:5,80", "ramp:5,80,0", "5Gpps"]
        {
            let message = RouterProfile::parse(wrong).unwrap_err().to_string();
            assert!(message.contains("expected `evaluation` or loads"), "{wrong}");
        }
    }
}
