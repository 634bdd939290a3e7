//! One run for several techniques: one paces it, the others follow for as long as they would do the
//! same at the same times (see `core/followers.rs`).

use halfwink_engine::confidence::Piece;
use halfwink_engine::{Closed, RunControl};
use halfwink_policy::gating::GatingPolicy;
use halfwink_units::{Clock, Time};

use crate::accounting::{Accountant, AccountingError, EnergyParts};
use crate::chip::{Chip, ChipError, CodeCache, Options};
use crate::core::{Core, FollowerInput};
use crate::gate_spec::GateSpec;
use crate::machine::{Machine, WakeUpKind};
use crate::precision::{Precision, Slices, Sums};
use crate::result::RunResult;
use crate::task::Task;
use crate::uncore::Uncore;

/// A technique that follows a run.
#[derive(Clone, Copy)]
pub struct Follower<'a> {
    /// The machine as it has it: of the same [`Machine::pace`].
    pub machine: &'a Machine,
    /// Makes the gating policy of each core.
    pub policy: &'a dyn Fn(usize) -> GatingPolicy,
    /// Cores carry retention cells.
    pub retention: bool,
}

/// Runs tasks as [`run`](crate::run) does, once for several techniques: `options` has the one that
/// paces the run. Each follower gets a result if a run of its own would have been the same to the
/// picosecond. It gets none if it delays the cores, or resumes them earlier, or its policy requests
/// an action that is invalid in the core's state. No technique can follow where threads move, a
/// central controller grants wake-ups, or units are gated by themselves.
///
/// # Errors
///
/// See [`ChipError`]; only of the technique that paces the run.
pub fn run_together(
    machine: &Machine,
    tasks: Vec<Task>,
    options: &Options<'_>,
    followers: &[Follower<'_>],
    codes: &mut CodeCache,
    control: &RunControl,
) -> Result<(RunResult, Vec<Option<RunResult>>), ChipError> {
    let mut chip = Chip::new(machine, tasks, options, followers, codes)?;
    chip.play(control)?;
    let (result, mut followed) = chip.finish()?;
    followed.resize_with(followers.len(), || None);
    Ok((result, followed))
}

/// Grants go to one core's gate, a thread that moves takes no gate along, and what goes wrong with
/// wake-ups is one technique's own.
pub(crate) fn can_be_followed(machine: &Machine, options: &Options<'_>) -> bool {
    let is_alone = options.offload.is_none() && options.segregated.is_none();
    let is_alone = is_alone && !machine.fupg.gated;
    is_alone && machine.wake_up.controller != WakeUpKind::Central && !machine.faults.any()
}

/// Returns the followers of one core.
pub(crate) fn follow_core(followers: &[Follower<'_>], core: usize) -> Vec<FollowerInput> {
    let on = |follower: &Follower<'_>| FollowerInput {
        policy: (follower.policy)(core),
        spec: GateSpec::of(follower.machine, core),
    };
    followers.iter().map(on).collect()
}

/// The accounts of one follower.
struct Account<'a> {
    accountant: Accountant<'a>,
    slices: Slices,
}

/// Results of a follower, with the parts of each core's energy.
pub(crate) type Found = (Closed, (Precision, Vec<Piece>), Vec<EnergyParts>);

/// Accounts of the followers, by number; none for those that diverged.
pub(crate) struct Followers<'a>(Vec<Option<Account<'a>>>);

impl<'a> Followers<'a> {
    pub(crate) fn new(followers: &[Follower<'a>], users: usize) -> Followers<'a> {
        let account = |(n, follower): (usize, &Follower<'a>)| {
            let accountant = Accountant::new(follower.machine, users, follower.retention).of(n);
            Some(Account { accountant, slices: Slices::new() })
        };
        Followers(followers.iter().enumerate().map(account).collect())
    }

    /// Drops a follower that diverged on one core on all of them.
    pub(crate) fn drop_parted(&mut self, cores: &mut [Core]) {
        for (n, place) in self.0.iter_mut().enumerate() {
            if place.is_some() && cores.iter().any(|core| core.followers.get(n).is_none()) {
                *place = None;
                cores.iter_mut().for_each(|core| core.followers.forget(n));
            }
        }
    }

    /// A request was completed with this latency.
    pub(crate) fn complete(&mut self, latency: Time) {
        for account in self.0.iter_mut().flatten() {
            account.slices.complete(latency);
        }
    }

    /// A slice ends, with these sums of the technique that paces the run.
    pub(crate) fn end_slice(&mut self, cores: &[Core], uncore: &Uncore, sums: Sums) {
        for Account { accountant, slices } in self.0.iter_mut().flatten() {
            let energy = accountant.energy(cores, uncore, sums.at);
            slices.end(Sums { energy, ..sums });
        }
    }

    /// The run ends: what each has to show.
    pub(crate) fn finish(
        self,
        cores: &[Core],
        uncore: &Uncore,
        sums: Sums,
        clock: Clock,
    ) -> Result<Vec<Option<Found>>, AccountingError> {
        let close = |account: Account<'_>| {
            let Account { accountant, slices } = account;
            let books = accountant.close(cores, uncore, sums.at)?;
            let energy = accountant.energy(cores, uncore, sums.at);
            let sliced = slices.finish(Sums { energy, ..sums }, clock);
            Ok((books, sliced, accountant.parts(cores)))
        };
        self.0.into_iter().map(|account| account.map(close).transpose()).collect()
    }
}
