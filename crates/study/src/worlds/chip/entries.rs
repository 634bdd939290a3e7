//! Descriptions of what enters a kernel beside calls, interrupts and exceptions, and of the
//! predictor that foresees how long it stays there.

use halfwink_policy::offload::{Organisation, Parameters};
use halfwink_trace::{HandlerLengths, TlbModel, TrapModel, WindowModel};
use serde::Deserialize;

use crate::error::StudyError;
use crate::library::Library;

/// The folder of these descriptions.
const FOLDER: &str = "machines/entries";
/// The one that experiments and commands use.
pub const PUBLISHED: &str = "ultrasparc-iii";

/// Which entries count, and their predictor.
#[derive(Clone, Debug)]
pub struct EntryModel {
    /// Windows, TLBs and their handlers.
    pub traps: TrapModel,
    /// Tables by name: how a predictor with each is built.
    pub predictors: Vec<(String, Parameters)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    schema: u32,
    #[serde(rename = "description")]
    _description: String,
    windows: WindowModel,
    tlb: TlbModel,
    handlers: HandlerLengths,
    predictor: PredictorSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PredictorSpec {
    associative_entries: usize,
    direct_entries: usize,
    tolerance_percent: u32,
    first_confidence: u8,
    history: usize,
    length_bits: u32,
}

/// Most entries of a predictor's table that can be described.
const MOST_ENTRIES: usize = 1 << 20;

impl PredictorSpec {
    /// The first value that is impossible: its path, and what was expected.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let within = |path, found: usize, least: usize, most: usize| {
            let message = format!("{found}, expected {least} to {most}");
            if (least..=most).contains(&found) {
                Ok(())
            } else {
                Err((path, message))
            }
        };
        within("predictor.associative_entries", self.associative_entries, 1, MOST_ENTRIES)?;
        within("predictor.direct_entries", self.direct_entries, 1, MOST_ENTRIES)?;
        within("predictor.tolerance_percent", self.tolerance_percent as usize, 0, 100)?;
        within("predictor.first_confidence", usize::from(self.first_confidence), 0, 3)?;
        // The bounds of the predictor, which clamps silently: the description would say one
        // history, and the predictor look back over another.
        within("predictor.history", self.history, 1, 8)?;
        within("predictor.length_bits", self.length_bits as usize, 1, 63)
    }

    /// Names say the published sizes, whatever is described: targets ask for them.
    fn parameters(&self) -> Vec<(String, Parameters)> {
        let (associative, direct) = (self.associative_entries, self.direct_entries);
        [
            ("associative-200", Organisation::FullyAssociative { entries: associative }),
            ("direct-1500", Organisation::DirectMapped { entries: direct }),
            ("unbounded", Organisation::Unbounded),
        ]
        .into_iter()
        .map(|(name, organisation)| {
            let parameters = Parameters {
                organisation,
                tolerance_percent: self.tolerance_percent,
                first_confidence: self.first_confidence,
                history: self.history,
                length_bits: self.length_bits,
            };
            (name.to_owned(), parameters)
        })
        .collect()
    }
}

impl Library {
    /// Reads a description of kernel entries, and sets `values` (path, value) in it.
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn entry_model(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<EntryModel, StudyError> {
        let path = self.find_named(FOLDER, "description of kernel entries", name)?;
        let values = values.iter().map(|(path, value)| (path.as_str(), value));
        let input = self.described(&path, values, &[])?;
        let spec: Spec = input.parse()?;
        let at = |(path, message): (&str, String)| input.error_at_key(path, &message);
        if spec.schema != 1 {
            return Err(at(("schema", format!("{}, expected 1", spec.schema))).into());
        }
        let traps = TrapModel { windows: spec.windows, tlb: spec.tlb, handlers: spec.handlers };
        traps.check().map_err(at)?;
        spec.predictor.check().map_err(at)?;
        Ok(EntryModel { traps, predictors: spec.predictor.parameters() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::library;

    #[test]
    fn the_shipped_description_is_the_published_predictor() {
        let model = library().entry_model(PUBLISHED, &[]).unwrap();
        let expected = [
            ("associative-200", Organisation::PUBLISHED_ASSOCIATIVE),
            ("direct-1500", Organisation::PUBLISHED_DIRECT),
            ("unbounded", Organisation::Unbounded),
        ]
        .map(|(name, table)| (name.to_owned(), Parameters::published(table)));
        assert_eq!(model.predictors, expected);
        assert_eq!(model.traps.windows.windows, 8);
    }

    #[test]
    fn what_is_impossible_is_said_with_its_line() {
        let complaint = |path: &str, value: &str| {
            let set = [(path.to_owned(), value.to_owned())];
            library().entry_model(PUBLISHED, &set).unwrap_err().to_string()
        };
        for (path, value, expected) in [
            ("windows.windows", "2", "windows.windows: 2, expected 3 to 32"),
            ("predictor.associative_entries", "0", "associative_entries: 0, expected 1 to"),
            ("predictor.first_confidence", "4", "first_confidence: 4, expected 0 to 3"),
            ("tlb.data.ways", "3", "tlb.data: 512 entries of 3 ways"),
            ("handlers.user_spil", "3", "user_spill"),
            ("schema", "2", "schema: 2, expected 1"),
        ] {
            let found = complaint(path, value);
            assert!(found.contains(expected), "{found}");
            assert!(found.contains("ultrasparc-iii.toml"), "{found}");
        }
        let unknown = library().entry_model("ultrasparc-iv", &[]).unwrap_err().to_string();
        assert!(unknown.contains("did you mean `ultrasparc-iii`"), "{unknown}");
    }
}
