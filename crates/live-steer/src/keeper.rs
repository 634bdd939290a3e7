//! Who does what the policy wants of a machine's power, and watches its health: a task for each.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halfwink_policy::steering::Side;

use super::config::{ms, Config, Machine};
use super::health::{probe, Unwell};
use super::meter::State;
use super::power::{run, Seen, Wanted};
use super::shared::Shared;

/// Between two looks whether a lost machine is back, where nothing else is said.
const LOOK: Duration = Duration::from_millis(500);
/// The longest pause between two looks whether a machine that was woken serves.
const PAUSE: Duration = Duration::from_millis(20);

/// Keeps a machine until the proxy ends.
pub async fn keep(shared: Arc<Shared>, side: Side) {
    let (mut well, mut ill) = (0, 0);
    loop {
        let config = shared.config();
        let (state, wanted) = shared.dispatch.state(side);
        let changed = shared.dispatch.changed[side.index()].notified();
        match state {
            State::GoingDown => go_down(&shared, &config, side).await,
            State::Waking => wake(&shared, &config, side).await,
            State::Asleep => match shared.dispatch.held(side) {
                None => changed.await,
                Some(left) => drop(tokio::time::timeout(left, changed).await),
            },
            State::On | State::Lost => {
                let every = match config.health.interval_ms {
                    0 if state == State::On => Duration::MAX,
                    0 => LOOK,
                    every => ms(every),
                };
                let look = async {
                    tokio::time::sleep(every.min(Duration::from_secs(1 << 30))).await;
                    look(&config, side).await
                };
                let found = tokio::select! {
                    found = look => found,
                    () = changed => {
                        // Checks of an earlier state say nothing about this one.
                        (well, ill) = (0, 0);
                        let is_taken = shared.dispatch.is_taken(side);
                        if state == State::Lost && wanted == Wanted::Awake && !is_taken {
                            again(&shared, &config, side).await;
                        }
                        continue;
                    }
                };
                // A lack of descriptors is this process's own and says nothing of the machine.
                let why = match found {
                    Ok(()) => None,
                    Err(Unwell::Machine(why) | Unwell::Refused(why)) => Some(why),
                    Err(Unwell::Short(error)) => {
                        shared.short(&error);
                        continue;
                    }
                };
                (well, ill) = if why.is_none() { (well + 1, 0) } else { (0, ill + 1) };
                if state == State::On && ill >= config.health.fall {
                    shared.say(side, &format!("lost: {}", why.unwrap_or_default()));
                    shared.dispatch.lost(side);
                } else if state == State::Lost && well >= config.health.rise {
                    shared.say(side, "back");
                    shared.dispatch.back(side);
                }
            }
        }
    }
}

async fn look(config: &Config, side: Side) -> Result<(), Unwell> {
    let health = &config.health;
    probe(&config.machine(side).address, health.path.as_deref(), ms(health.timeout_ms)).await
}

async fn go_down(shared: &Shared, config: &Config, side: Side) {
    let (machine, level) = (config.machine(side), shared.dispatch.level(side));
    // Asked once for each sleep: deeper levels begin with a machine that sleeps already.
    if level == 0 && !machine.may_sleep.is_empty() && !shared.dispatch.is_allowed(side) {
        if let Err(why) = run(&machine.may_sleep, ms(machine.wake_timeout_ms)).await {
            if shared.dispatch.stay(side, ms(machine.ask_again_ms)) {
                shared.say(side, &format!("stays on: {why}"));
            }
            return;
        }
    }
    if level == 0 && !shared.dispatch.leave(side) {
        return;
    }
    let done = turn(shared, machine, level, Wanted::Asleep).await;
    if let Err(why) = &done {
        shared.say(side, &format!("cannot sleep: {why}"));
    }
    shared.dispatch.asleep(side, done.is_ok());
}

/// Does what is wanted of a machine's power, as soon as this process has descriptors for it.
async fn turn(
    shared: &Shared,
    machine: &Machine,
    level: usize,
    wanted: Wanted,
) -> Result<(), Unwell> {
    loop {
        match machine.power_at(level).turn(wanted, ms(machine.wake_timeout_ms)).await {
            Err(Unwell::Short(error)) if !shared.drained.load(Ordering::Acquire) => {
                shared.short(&error);
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// Wakes a machine: it is awake once it answers.
async fn wake(shared: &Shared, config: &Config, side: Side) {
    let (machine, level) = (config.machine(side), shared.dispatch.level(side));
    let mut until = Instant::now() + ms(machine.wake_timeout_ms);
    let mut found = turn(shared, machine, level, Wanted::Awake).await;
    if found.is_err() {
        shared.dispatch.power_failed(side);
    } else {
        let (mut pause, mut refused) = (Duration::from_millis(1), 0);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = ms(config.health.timeout_ms).min(left.max(Duration::from_millis(1)));
            let path = config.health.path.as_deref();
            found = probe(&machine.address, path, timeout).await;
            match &found {
                // Nobody has looked: it has as much time again.
                Err(Unwell::Short(error)) => {
                    shared.short(error);
                    until = Instant::now() + ms(machine.wake_timeout_ms);
                }
                // It runs already, and is not there.
                Err(Unwell::Refused(_)) if machine.power_at(level).wakes_at_once() => {
                    refused += 1;
                    if refused >= config.health.fall {
                        break;
                    }
                }
                Err(_) if Instant::now() + pause < until => {}
                _ => break,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE);
        }
    }
    match found {
        Ok(()) => shared.dispatch.awake(side),
        Err(why) => {
            shared.say(side, &format!("lost, did not wake: {why}"));
            shared.dispatch.lost(side);
        }
    }
}

/// A lost machine was asked to wake once more.
async fn again(shared: &Shared, config: &Config, side: Side) {
    let (machine, level) = (config.machine(side), shared.dispatch.level(side));
    if let Err(why) = turn(shared, machine, level, Wanted::Awake).await {
        shared.dispatch.power_failed(side);
        shared.say(side, &format!("cannot wake: {why}"));
    }
}

/// Watches the power state of a machine that has a state query: another program, or an operator,
/// may change it. What it finds is reported and booked, and nothing is done against it.
pub async fn watch(shared: Arc<Shared>, side: Side) {
    let mut is_known = true;
    loop {
        let config = shared.config();
        let machine = config.machine(side);
        let moment = shared.dispatch.moment(side);
        let power = machine.power_at(shared.dispatch.level(side));
        // A change that is under way has queries of its own.
        let is_resting = !matches!(moment.0, State::GoingDown | State::Waking);
        let found = if is_resting { power.state().await } else { None };
        match found {
            None | Some(Err(Unwell::Short(_))) => {}
            Some(Err(why)) => {
                if std::mem::take(&mut is_known) {
                    shared.say(side, &format!("its power state is not known: {why}"));
                }
            }
            Some(Ok(found)) => {
                is_known = true;
                if shared.dispatch.seen(side, moment, found.seen) {
                    let rest = match found.seen {
                        Seen::Awake => "its sleep has ended; it is booked as on",
                        _ => "it is lost until it is switched on again",
                    };
                    shared.say(side, &format!("found {}, changed by another: {rest}", found.word));
                }
            }
        }
        let every = match machine.power_query_ms {
            0 => Duration::from_secs(1 << 30),
            every => ms(every),
        };
        tokio::time::sleep(every).await;
    }
}

/// Rings the policy's timer.
pub async fn keep_time(shared: Arc<Shared>) {
    loop {
        let earlier = shared.dispatch.timer.notified();
        match shared.dispatch.tick() {
            Ok(None) => earlier.await,
            Err(why) => {
                shared.warn(&why.to_string());
                earlier.await;
            }
            Ok(Some(left)) => {
                // Rounded up, so that the timer is due when this wakes.
                let left = Duration::from_nanos(left.0.div_ceil(1000));
                let _ = tokio::time::timeout(left, earlier).await;
            }
        }
    }
}

/// Wakes all machines at the end, since no later program would wake them.
pub async fn wake_all(shared: &Shared) {
    let config = shared.config();
    for side in config.sides() {
        let machine = config.machine(side);
        // Another program has switched it off, and wants it so.
        let is_ours = !shared.dispatch.is_taken(side);
        if shared.dispatch.state(side).0 != State::On && is_ours {
            let power = machine.power_at(shared.dispatch.level(side));
            if let Err(why) = power.turn(Wanted::Awake, ms(machine.wake_timeout_ms)).await {
                shared.say(side, &format!("cannot wake at the end: {why}"));
            }
        }
    }
}
