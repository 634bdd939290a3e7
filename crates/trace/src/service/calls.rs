//! Which kernel invocations come, and how long they and the user runs are.

use super::model::{Cause, Class, ServiceModel};
use super::random::Random;

/// Lengths of a class: so many, evenly spaced.
pub(super) const VARIANTS: u32 = 8;
/// The order in which they come: each pair has the class' mean.
const ORDER: [u32; VARIANTS as usize] = [0, 7, 3, 4, 1, 6, 2, 5];
/// One invocation in so many has another length than the last of its cause and arguments, by up to
/// a twentieth (spec of the thesis' predictor: most lengths repeat). Assumption, not calibrated.
const JITTER: u64 = 4;
/// No shorter invocation varies, copies or is interrupted.
pub(super) const LONG: u32 = 1000;

/// A kernel invocation to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Number of its cause, over all classes.
    pub routine: usize,
    pub cause: Cause,
    pub variant: u32,
    pub instructions: u32,
}

/// Draws invocations from a deck that is shuffled again when it is used up: the published means
/// hold over a short time, though a few long invocations make half of all instructions.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    classes: &'static [Class],
    /// Number of the first cause of each class.
    first: Vec<usize>,
    /// Number of draws of each class.
    drawn: Vec<u32>,
    deck: Vec<u8>,
    next: usize,
}

impl Calls {
    pub(super) fn new(model: &ServiceModel) -> Calls {
        let classes = model.classes;
        let mut first = Vec::new();
        let mut causes = 0;
        for class in classes {
            first.push(causes);
            causes += class.causes.len();
        }
        let cards = |(n, class): (usize, &Class)| vec![n as u8; class.calls as usize];
        let deck: Vec<u8> = classes.iter().enumerate().flat_map(cards).collect();
        Calls { classes, first, drawn: vec![0; classes.len()], next: deck.len(), deck }
    }

    pub(super) fn draw(&mut self, random: &mut Random) -> Call {
        if self.next == self.deck.len() {
            self.next = 0;
            for i in (1..self.deck.len()).rev() {
                self.deck.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        let n = usize::from(self.deck[self.next]);
        self.next += 1;
        let class = &self.classes[n];
        let drawn = self.drawn[n];
        self.drawn[n] = drawn.wrapping_add(1);
        let causes = class.causes.len() as u32;
        let cause = drawn % causes;
        // Each cause meets each length, also where their numbers have a common divisor.
        let variant = ORDER[((drawn + drawn / VARIANTS) % VARIANTS) as usize];
        let mut instructions = length(class, variant);
        if instructions > 100 && random.below(JITTER) == 0 {
            let most = u64::from(instructions / 20);
            instructions = instructions - most as u32 + random.below(2 * most + 1) as u32;
        }
        let routine = self.first[n] + cause as usize;
        Call { routine, cause: class.causes[cause as usize], variant, instructions }
    }
}

/// The length of a variant of a class.
pub(super) fn length(class: &Class, variant: u32) -> u32 {
    let middle = f64::from(VARIANTS - 1) / 2.0;
    let offset = (f64::from(variant) - middle) / middle * class.spread * f64::from(class.mean);
    // Rounding away from the mean on both sides keeps it.
    (f64::from(class.mean) + offset.round()) as u32
}

/// The length of a user run: evenly spread from half of the mean to half more.
pub(super) fn user_run(model: &ServiceModel, random: &mut Random) -> u32 {
    let half = model.user_run / 2;
    model.user_run - half + random.below(2 * u64::from(half) + 1) as u32
}
