//! What a whole package takes, from a machine that may be a part of one.

use super::{Machine, PackageSpec};

/// Events of a hundred instructions of a server's program (assumption: rounded from the recordings
/// of nginx and gcc), to say what a busy core takes.
const PER_HUNDRED: Events =
    Events { uop: 115.0, alu: 60.0, fp: 2.0, l1i: 25.0, l1d: 40.0, l2: 2.0, mispredict: 0.5 };

struct Events {
    uop: f64,
    alu: f64,
    fp: f64,
    l1i: f64,
    l1d: f64,
    l2: f64,
    mispredict: f64,
}

/// Watts of a whole package without its memory, as the description has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Socket {
    /// Cores of the package.
    pub cores: usize,
    /// A core at an instruction a cycle.
    pub busy_core_w: f64,
    /// All cores at an instruction a cycle.
    pub busy_w: f64,
    /// All cores in C1.
    pub halted_w: f64,
    /// All cores in the deepest state that one can buy; what they share is awake.
    pub idle_w: f64,
    /// Thermal design power of the socket.
    pub tdp_w: Option<f64>,
    /// Published power of a socket without work, least and most.
    pub published_idle_w: Option<[f64; 2]>,
}

impl Machine {
    /// The package that these cores are of; none if the machine says nothing of it.
    #[must_use]
    pub fn socket(&self) -> Option<Socket> {
        let package = self.package.as_ref()?;
        let cores = package.cores.unwrap_or(self.cores);
        let dies = cores as f64 / package.l3_cores.unwrap_or(self.cores) as f64;
        let shared_w = package.uncore_w + dies * self.power.l3.leakage_w;
        let all = |core_w: f64| cores as f64 * core_w + shared_w;
        let leakage_w = self.power.core.leakage_w;
        let for_sale = |state: &&super::IdleState| state.is_deep() && !state.proposed;
        let deepest = self.idle_states.iter().filter(for_sale).map(super::IdleState::core_w);
        let busy_core_w = self.busy_core_w();
        let PackageSpec { tdp_w, idle_w, .. } = *package;
        Some(Socket {
            cores,
            busy_core_w,
            busy_w: all(busy_core_w),
            halted_w: all(leakage_w),
            idle_w: all(deepest.fold(leakage_w, f64::min)),
            tdp_w,
            published_idle_w: idle_w,
        })
    }

    /// Returns the power of a core that retires an instruction in each cycle.
    fn busy_core_w(&self) -> f64 {
        let core = &self.power.core;
        let (each, n) = (&core.event_pj, PER_HUNDRED);
        let pj = each.uop * n.uop
            + each.alu * n.alu
            + each.fp * n.fp
            + each.l1i_access * n.l1i
            + each.l1d_access * n.l1d
            + each.l2_access * n.l2
            + each.mispredict * n.mispredict;
        core.leakage_w + core.clock_w + pj / 100.0 * 1e-12 * self.clock.hz()
    }
}

#[cfg(test)]
mod tests {
    use halfwink_engine::Input;

    use super::*;

    const FILES: [(&str, &str); 3] = [
        ("golden-cove", include_str!("../../../../machines/golden-cove.toml")),
        ("zen4", include_str!("../../../../machines/zen4.toml")),
        ("neoverse-v2", include_str!("../../../../machines/neoverse-v2.toml")),
    ];

    fn parse(name: &str, text: &str) -> Machine {
        Machine::parse(&Input::new(name, text)).unwrap()
    }

    /// Says what is wrong with the sum of a machine's watts.
    fn wrong(machine: &Machine) -> Option<String> {
        let Some(socket) = machine.socket() else { return Some("no package".into()) };
        let Some(tdp_w) = socket.tdp_w else { return Some("no TDP".into()) };
        if socket.busy_w > tdp_w || socket.busy_w < 0.5 * tdp_w {
            return Some(format!("busy {:.0} W of a TDP of {tdp_w} W", socket.busy_w));
        }
        let [low, high] = socket.published_idle_w?;
        let far = !(0.7 * low..=1.3 * high).contains(&socket.idle_w);
        far.then(|| format!("idle {:.0} W, published {low} to {high} W", socket.idle_w))
    }

    #[test]
    fn all_cores_busy_stay_below_the_tdp_and_idle_is_as_published() {
        for (name, text) in FILES {
            assert_eq!(wrong(&parse(name, text)), None, "{name}");
        }
    }

    #[test]
    fn a_die_that_has_a_whole_sockets_uncore_does_not_add_up() {
        // As these files were before: each of twelve dies has it all, and a core takes 3.9 W.
        let change = |text: &str, from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        };
        let zen4 = change(FILES[1].1, "uncore_w = 75.0", "uncore_w = 355.2");
        assert_eq!(wrong(&parse("zen4", &zen4)).unwrap(), "busy 628 W of a TDP of 360 W");
        let idle = change(FILES[0].1, "core_w = 0.09", "core_w = 1.2");
        let idle = change(&idle, "uncore_w = 80.0", "uncore_w = 110.0");
        let said = wrong(&parse("golden-cove", &idle)).unwrap();
        assert!(said.starts_with("idle 160 W"), "{said}");
    }

    #[test]
    fn fewer_cores_have_their_share_of_what_a_package_shares() {
        let golden_cove = parse("golden-cove", FILES[0].1).with_cores(4);
        let share = |machine: &Machine| {
            let of = |part: fn(&PackageSpec) -> Option<usize>| machine.share(part);
            [of(|p| p.cores), of(|p| p.l3_cores), of(|p| p.memory_cores)]
        };
        assert_eq!(share(&golden_cove), [4.0 / 56.0; 3]);
        assert_eq!(share(&golden_cove.clone().with_cores(64)), [1.0; 3]);
        let zen4 = parse("zen4", FILES[1].1);
        assert_eq!(share(&zen4), [8.0 / 96.0, 1.0, 1.0]);
        assert_eq!(golden_cove.socket().unwrap().cores, 56, "whatever is simulated of it");
    }
}
