//! Targets: published numbers, how ours are computed, and how close is close. TOML.

use halfwink_engine::{Input, InputError};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

use crate::error::StudyError;
use crate::library::{read, Library};

/// One file of targets: some of what one work published.
#[derive(Clone, Debug)]
pub struct Work {
    /// Short name (`strong`), the first part of every id.
    pub work: String,
    /// The full reference.
    pub citation: String,
    /// The targets of this work.
    pub targets: Vec<Target>,
}

/// A published number, with our own value and how the two compare.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The unique name (`strong/PT-2.13/ev6`).
    pub id: String,
    /// The area that it belongs to (`gating`).
    pub area: String,
    /// `Strong 2013, Table 2.3`.
    pub source: String,
    /// A description of the quantity.
    pub quantity: String,
    /// Unit; `claim` for statements, whose value is true.
    pub unit: String,
    /// The value of a number without any effect: 1 for ratios (`x`), else 0 unless the file says.
    pub neutral: f64,
    /// The published value.
    pub published: Published,
    /// The kind of agreement that can be expected.
    pub class: Class,
    /// May not be used to fit anything.
    pub held_out: bool,
    /// The tolerance; if absent, the default of the class holds.
    pub tolerance: Option<Tolerance>,
    /// Computed from printed numbers rather than printed.
    pub derived: bool,
    /// The reason why the published value is doubtful.
    pub anomaly: String,
    /// The publication contradicts itself here, as `anomaly` states: neither reading is judged.
    pub contradicted: bool,
    /// A remark for a reader who reproduces the value.
    pub note: String,
    /// The way in which our value is computed, once it is.
    pub compute: Option<Compute>,
    /// Mutants of the models ([`crate::Mutant`]) under which it is no longer met.
    pub killed_by: Vec<String>,
}

/// The value of a target as published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A statement, which holds.
    Claim(bool),
    /// A published number.
    Number(f64),
    /// A published text.
    Text(String),
}

/// The kind of agreement that can be expected of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Follows from printed numbers alone: says that we can calculate, nothing of a model.
    Arithmetic,
    /// Repeats what a description says, since it was taken from there.
    Input,
    /// Follows from stated numbers: must agree as printed.
    Exact,
    /// A number to meet within a tolerance.
    Quantitative,
    /// Sign, order, place of an optimum.
    Shape,
    /// Tied to hardware that is no longer to be had: a modern analogue is reported.
    Hardware,
}

impl Class {
    /// Returns whether the value must agree as printed.
    fn is_exact(self) -> bool {
        matches!(self, Class::Exact | Class::Arithmetic | Class::Input)
    }
}

/// The difference at which a value still agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Share of the published effect: the difference from [`Target::neutral`].
    pub rel: Option<f64>,
    /// Absolute difference, in the target's unit.
    pub abs: Option<f64>,
    /// The least acceptable value.
    pub min: Option<f64>,
    /// The greatest acceptable value.
    pub max: Option<f64>,
}

/// The way in which our value of a target is computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// The sources of the value: `study gating`, `experiment router/westmere`, or several; nothing
    /// for values that follow from machine descriptions or from printed numbers alone. A study's
    /// tables are `runs`, `ledger` and those of its world; an experiment's those that its entry in
    /// the list names ([`crate::experiments`]).
    #[serde(default, rename = "from", deserialize_with = "one_or_more")]
    pub from: Vec<Source>,
    /// SQL that yields one value, over those tables (`runs` with columns relative to the baseline),
    /// `facts` of all machines, and `published` numbers (`id`, `value`) for arithmetic among them.
    pub sql: String,
    /// The models were fitted to this value.
    #[serde(default)]
    pub calibrated: bool,
    /// An explanation of our value.
    #[serde(default)]
    pub remark: String,
}

/// A study or an experiment by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    /// The results of a study.
    Study(String),
    /// The tables of an experiment.
    Experiment(String),
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(text: String) -> Result<Source, String> {
        match text.split_once(' ') {
            Some(("study", name)) => Ok(Source::Study(name.to_owned())),
            Some(("experiment", name)) => Ok(Source::Experiment(name.to_owned())),
            _ => Err(format!("from `{text}`: expected `study NAME` or `experiment NAME`")),
        }
    }
}

impl From<Source> for String {
    fn from(source: Source) -> String {
        match source {
            Source::Study(name) => format!("study {name}"),
            Source::Experiment(name) => format!("experiment {name}"),
        }
    }
}

fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Source>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    let texts = match OneOrMore::deserialize(from)? {
        OneOrMore::One(text) => vec![text],
        OneOrMore::More(texts) => texts,
    };
    texts.into_iter().map(|t| Source::try_from(t).map_err(D::Error::custom)).collect()
}

/// The outcome of comparing our value with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A number within the tolerance.
    Match,
    /// The shape is the published one.
    Holds,
    /// Within the tolerance, but fitted to it.
    Calibrated,
    /// A number outside the tolerance.
    Miss,
    /// A shape that is not there.
    Fails,
    /// A modern stand-in, not comparable in size.
    Analogue,
    /// Calculated from printed numbers alone, and as printed.
    Arithmetic,
    /// A setting of ours, and as printed.
    Input,
    /// The publication contradicts itself: there is nothing to judge by.
    Contradicted,
    /// Within the tolerance, and would be with the model broken: it says nothing.
    Insensitive,
    /// Computed, but nothing in the model determines it.
    Undetermined,
    /// A target for which nothing was computed.
    NotYet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFile {
    schema: Spanned<u32>,
    work: String,
    citation: String,
    short: String,
    target: Vec<Spanned<TargetEntry>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetEntry {
    id: String,
    area: String,
    source: String,
    quantity: String,
    unit: String,
    neutral: Option<f64>,
    published: Published,
    class: Class,
    held_out: bool,
    tolerance: Option<Tolerance>,
    #[serde(default)]
    derived: bool,
    #[serde(default)]
    anomaly: String,
    #[serde(default)]
    contradicted: bool,
    #[serde(default)]
    note: String,
    compute: Option<Compute>,
}

/// Areas of the laboratory.
pub const AREAS: [&str; 9] = [
    "gating",
    "switching",
    "offload",
    "segregation",
    "preheat",
    "router",
    "hybrid",
    "circuits",
    "storage",
];

impl Library {
    /// All targets of all works, in the order of their files.
    ///
    /// # Errors
    /// If a file is wrong; with file and line.
    pub fn targets(&self) -> Result<Vec<Target>, StudyError> {
        let mut all: Vec<Target> = Vec::new();
        for name in self.names("targets", "toml") {
            let path = self.folder("targets").join(format!("{name}.toml"));
            let input = Input::new(path.display().to_string(), read(&path)?);
            let mut work = Work::parse(&input)?;
            work.remember(&self.kills(&name)?)?;
            all.extend(work.targets);
        }
        Ok(all)
    }
}

impl Work {
    /// Reads a file of targets.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(input: &Input) -> Result<Work, InputError> {
        let file: TargetFile = input.parse()?;
        if *file.schema.get_ref() != 1 {
            let message = "this halfwink reads target schema 1";
            return Err(input.error_at(&file.schema.span(), message));
        }
        let mut targets: Vec<Target> = Vec::with_capacity(file.target.len());
        for entry in file.target {
            let span = entry.span();
            let entry = entry.into_inner();
            let id = format!("{}/{}", file.work, entry.id);
            if targets.iter().any(|t| t.id == id) {
                return Err(input.error_at(&span, format!("target `{id}` is listed twice")));
            }
            if !AREAS.contains(&entry.area.as_str()) {
                let message = format!("target `{id}`: unknown area `{}`", entry.area);
                return Err(input.error_at(&span, message));
            }
            if entry.contradicted && entry.anomaly.is_empty() {
                let message =
                    format!("target `{id}` is contradicted: expected `anomaly` to say how");
                return Err(input.error_at(&span, message));
            }
            targets.push(Target {
                id,
                area: entry.area,
                source: format!("{}, {}", file.short, entry.source),
                quantity: entry.quantity,
                neutral: entry.neutral.unwrap_or(if entry.unit == "x" { 1.0 } else { 0.0 }),
                unit: entry.unit,
                published: entry.published,
                class: entry.class,
                held_out: entry.held_out,
                tolerance: entry.tolerance,
                derived: entry.derived,
                anomaly: entry.anomaly,
                contradicted: entry.contradicted,
                note: entry.note,
                compute: entry.compute,
                killed_by: Vec::new(),
            });
        }
        Ok(Work { work: file.work, citation: file.citation, targets })
    }
}

impl Target {
    /// Judges our value: a number, or 1 and 0 for a claim that holds and one that does not.
    ///
    /// What would also be met with the model broken counts for nothing.
    #[must_use]
    pub fn verdict(&self, ours: Option<f64>) -> Verdict {
        match self.verdict_on_its_own(ours) {
            Verdict::Match | Verdict::Holds if self.killed_by.is_empty() => Verdict::Insensitive,
            verdict => verdict,
        }
    }

    /// Judges our value in the same way, whether or not any mutant would change it.
    #[must_use]
    pub fn verdict_on_its_own(&self, ours: Option<f64>) -> Verdict {
        let Some(ours) = ours.filter(|n| n.is_finite()) else {
            // A query that yields NaN or nothing is told from one that was never written: the model
            // was asked, and does not say.
            return if self.compute.is_some() { Verdict::Undetermined } else { Verdict::NotYet };
        };
        let within = self.is_within(ours);
        match (self.class, within) {
            // The order is the rule: a stand-in is never judged, then a contradiction is no miss,
            // and a fitted value is no match.
            (Class::Hardware, _) => Verdict::Analogue,
            _ if self.contradicted => Verdict::Contradicted,
            (Class::Arithmetic, true) => Verdict::Arithmetic,
            (Class::Input, true) => Verdict::Input,
            (_, true) if self.compute.as_ref().is_some_and(|c| c.calibrated) => Verdict::Calibrated,
            (Class::Shape, true) => Verdict::Holds,
            (Class::Shape, false) => Verdict::Fails,
            (_, true) => Verdict::Match,
            (_, false) => Verdict::Miss,
        }
    }

    fn is_within(&self, ours: f64) -> bool {
        let published = match self.published {
            Published::Claim(holds) => return (ours >= 0.5) == holds,
            Published::Number(n) => Some(n),
            // A fact in words is asked for: are ours the same?
            Published::Text(_) if self.class.is_exact() && self.tolerance.is_none() => {
                // To the bit: SQL returns a truth value as 1, and anything near it is a number that
                // answers another question.
                return ours.to_bits() == 1.0f64.to_bits();
            }
            Published::Text(_) => None,
        };
        // No tolerance forgives a sign.
        if published.is_some_and(|p| self.is_opposite(p, ours)) {
            return false;
        }
        if let Some(Tolerance { rel, abs, min, max }) = self.tolerance {
            // A text with bounds has no distance, so that only `min` and `max` decide.
            let near = |distance: f64| published.is_none_or(|p| (ours - p).abs() <= distance);
            return rel.is_none_or(|r| near(self.share(r, published.unwrap_or(0.0))))
                && abs.is_none_or(near)
                && min.is_none_or(|m| ours >= m)
                && max.is_none_or(|m| ours <= m);
        }
        let Some(published) = published else { return false };
        let distance = match self.class {
            // Half a unit of the last printed digit.
            Class::Exact | Class::Arithmetic | Class::Input => half_of_last_digit(published),
            Class::Quantitative => self.share(0.10, published),
            Class::Shape | Class::Hardware => return self.has_shape(published, ours),
        };
        // The last factor forgives rounding alone: 0.55 - 0.5 is more than 0.05 in binary.
        (ours - published).abs() <= distance * (1.0 + 1e-9)
    }
}

impl Target {
    /// Sign and size: within a quarter of the effect; or, of a percentage, within half a point.
    fn has_shape(&self, published: f64, ours: f64) -> bool {
        let near: f64 = if self.unit == "%" { 0.5 } else { 0.0 };
        let none = self.neutral;
        // A published null has no sign to share; its size is judged alone.
        let same_sign = published == none || (published - none) * (ours - none) > 0.0;
        same_sign && (ours - published).abs() <= near.max(self.share(0.25, published))
    }

    /// A share of the published effect, never of more than the number itself. Half a point of a
    /// ratio is always forgiven, so that one that is printed as 1 can be met.
    fn share(&self, share: f64, published: f64) -> f64 {
        // Without the second bound a published ratio of 0.02 would be met by 0.1: a tenth of its
        // effect, which is 0.98.
        let effect = (published - self.neutral).abs().min(published.abs());
        (share * effect).max(0.005 * self.neutral)
    }

    /// Returns whether ours lies on the other side of no effect, in the digits that are printed.
    fn is_opposite(&self, published: f64, ours: f64) -> bool {
        let scale = 0.5 / half_of_last_digit(published);
        // Rounded as it would be printed: beside a printed 2 %, ours of -0.3 % is 0, which has no
        // sign.
        let shown = (ours * scale).round() / scale;
        (published - self.neutral) * (shown - self.neutral) < 0.0
    }
}

/// Half a unit of the last digit that a number needs to be printed.
fn half_of_last_digit(n: f64) -> f64 {
    let text = format!("{n}");
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    0.5 * 10f64.powi(-(decimals as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(class: Class, published: Published, tolerance: Option<Tolerance>) -> Target {
        Target {
            id: "strong/PT-0".into(),
            area: "gating".into(),
            source: String::new(),
            quantity: String::new(),
            unit: "%".into(),
            neutral: 0.0,
            published,
            class,
            held_out: false,
            tolerance,
            derived: false,
            anomaly: String::new(),
            contradicted: false,
            note: String::new(),
            compute: None,
            killed_by: vec!["anything".into()],
        }
    }

    #[test]
    fn exact_means_as_printed() {
        let target = target(Class::Exact, Published::Number(17.17), None);
        assert_eq!(target.verdict(Some(17.1747)), Verdict::Match);
        assert_eq!(target.verdict(Some(17.18)), Verdict::Miss);
        assert_eq!(target.verdict(None), Verdict::NotYet);
        assert_eq!(target.verdict(Some(f64::NAN)), Verdict::NotYet);
        let sql = Compute {
            from: Vec::new(),
            sql: String::new(),
            calibrated: false,
            remark: String::new(),
        };
        let asked = Target { compute: Some(sql), ..target };
        assert_eq!(asked.verdict(None), Verdict::Undetermined);
    }

    #[test]
    fn shapes_hold_or_fail() {
        let number = target(Class::Shape, Published::Number(3.1), None);
        assert_eq!(number.verdict(Some(3.8)), Verdict::Holds);
        assert_eq!(number.verdict(Some(-0.1)), Verdict::Fails);
        assert_eq!(number.verdict(Some(3.9)), Verdict::Fails);
        assert_eq!(number.verdict(Some(2.3)), Verdict::Fails);
        let small = target(Class::Shape, Published::Number(0.4), None);
        assert_eq!(small.verdict(Some(0.8)), Verdict::Holds);
        assert_eq!(small.verdict(Some(-0.05)), Verdict::Fails);
        assert_eq!(small.verdict(Some(1.0)), Verdict::Fails);
        let none = target(Class::Shape, Published::Number(0.0), None);
        assert_eq!(none.verdict(Some(-0.01)), Verdict::Holds);
        assert_eq!(none.verdict(Some(0.8)), Verdict::Fails);
        let claim = target(Class::Shape, Published::Claim(true), None);
        assert_eq!(claim.verdict(Some(1.0)), Verdict::Holds);
        assert_eq!(claim.verdict(Some(0.0)), Verdict::Fails);
    }

    /// A gain of 24.5 % is not met by one of 3.1 %, and a loss is no gain, whatever is forgiven.
    #[test]
    fn tolerances_are_shares_of_the_effect() {
        let t = Some(Tolerance { rel: Some(0.2), ..Tolerance::default() });
        let ratio = |class, published, tolerance| Target {
            unit: "x".into(),
            neutral: 1.0,
            ..target(class, Published::Number(published), tolerance)
        };
        let gain = ratio(Class::Quantitative, 1.245, t);
        assert_eq!(gain.verdict(Some(1.031)), Verdict::Miss);
        assert_eq!(gain.verdict(Some(1.20)), Verdict::Match);
        assert_eq!(gain.verdict(Some(1.19)), Verdict::Miss);
        let loss = ratio(Class::Shape, 0.88, None);
        assert_eq!(loss.verdict(Some(0.90)), Verdict::Holds);
        assert_eq!(loss.verdict(Some(0.92)), Verdict::Fails);
        // Never more than a share of the number: 0.2 of 0.3, not of 0.7.
        let factor = ratio(Class::Quantitative, 0.3, t);
        assert_eq!(factor.verdict(Some(0.36)), Verdict::Match);
        assert_eq!(factor.verdict(Some(0.37)), Verdict::Miss);
        let none = ratio(Class::Shape, 1.0, None);
        assert_eq!(none.verdict(Some(1.004)), Verdict::Holds);
        assert_eq!(none.verdict(Some(0.99)), Verdict::Fails);
        let share =
            Target { neutral: 100.0, ..target(Class::Quantitative, Published::Number(95.4), t) };
        assert_eq!(share.verdict(Some(99.7)), Verdict::Miss);
        assert_eq!(share.verdict(Some(96.0)), Verdict::Match);
    }

    #[test]
    fn no_tolerance_forgives_a_sign() {
        let most = Some(Tolerance { max: Some(3.0), ..Tolerance::default() });
        let number = target(Class::Quantitative, Published::Number(1.4), most);
        assert_eq!(number.verdict(Some(-0.2)), Verdict::Miss);
        assert_eq!(number.verdict(Some(2.9)), Verdict::Match);
        // It does not show in the digits that are printed.
        assert_eq!(number.verdict(Some(-0.04)), Verdict::Match);
    }

    #[test]
    fn tolerances_bound_from_all_sides() {
        let t = Tolerance { rel: Some(0.1), max: Some(10.5), ..Tolerance::default() };
        let target = target(Class::Quantitative, Published::Number(10.0), Some(t));
        assert_eq!(target.verdict(Some(9.1)), Verdict::Match);
        assert_eq!(target.verdict(Some(10.6)), Verdict::Miss);
    }

    #[test]
    fn what_says_nothing_of_a_model_is_no_match() {
        let number = |class| target(class, Published::Number(4.2), None);
        assert_eq!(number(Class::Arithmetic).verdict(Some(4.2)), Verdict::Arithmetic);
        assert_eq!(number(Class::Arithmetic).verdict(Some(4.3)), Verdict::Miss);
        assert_eq!(number(Class::Input).verdict(Some(4.2)), Verdict::Input);
        let contradicted = Target { contradicted: true, ..number(Class::Exact) };
        assert_eq!(contradicted.verdict(Some(4.2)), Verdict::Contradicted);
        assert_eq!(contradicted.verdict(Some(9.9)), Verdict::Contradicted);
        for (class, good) in [(Class::Exact, Verdict::Match), (Class::Shape, Verdict::Holds)] {
            let unkilled = Target { killed_by: Vec::new(), ..number(class) };
            assert_eq!(unkilled.verdict(Some(4.2)), Verdict::Insensitive);
            assert_eq!(unkilled.verdict_on_its_own(Some(4.2)), good);
            // What is missed needs no mutant.
            assert_eq!(unkilled.verdict(Some(42.0)), unkilled.verdict_on_its_own(Some(42.0)));
        }
    }

    /// The classes say where a value comes from; the SQL does, too.
    #[test]
    fn what_no_model_computes_is_arithmetic_or_input() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        for target in Library::new(root).targets().unwrap() {
            let Some(compute) = &target.compute else { continue };
            let names = |table: &str| {
                compute.sql.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == table)
            };
            let (id, class) = (&target.id, target.class);
            if compute.from.is_empty() && !names("NULL") {
                let expected = if names("facts") { Class::Input } else { Class::Arithmetic };
                assert_eq!(class, expected, "{id} is computed from no model");
            }
            if matches!(class, Class::Arithmetic | Class::Input) {
                assert!(!compute.calibrated, "{id} is {class:?}, so nothing was fitted to it");
                assert!(!target.held_out, "{id} is {class:?}, so nothing is predicted");
            }
        }
    }

    #[test]
    fn every_listed_target_can_be_read() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let targets = Library::new(root).targets().unwrap();
        assert!(targets.len() > 2000, "{}", targets.len());
        for work in ["strong", "niccolini", "mogul", "gottschlag", "nellans"] {
            assert!(targets.iter().any(|t| t.id.starts_with(work)), "{work}");
        }
    }
}
