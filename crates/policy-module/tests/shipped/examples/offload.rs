//! The shipped offload policies as a module: those that need no first run, with their usual
//! parameters.

use halfwink_policy::offload::{
    Feedback, FeedbackParameters, Fixed, LikeOs, LikeOsParameters, OffloadPolicy, Organisation,
    Parameters, PerCall, Predicted, PredictedParameters, Threshold,
};
use halfwink_policy::record::Fields;
use halfwink_units::Time;

shipped::exports!("offload", 6, OffloadPolicy, policy_of);

/// Epochs are this much shorter than published, as in the list of techniques.
const EPOCHS_SHORTENED_BY: u64 = 250;

fn predicted(organisation: Organisation, threshold: Threshold) -> OffloadPolicy {
    let parameters = Parameters::published(organisation);
    Box::new(Predicted::new(PredictedParameters::hardware(parameters, threshold)))
}

fn policy_of(number: u32, _start: &Fields) -> OffloadPolicy {
    let associative = Organisation::PUBLISHED_ASSOCIATIVE;
    match number {
        0 => Box::new(Fixed::always()),
        1 => Box::new(PerCall::enough_work(4096)),
        2 => Box::new(Predicted::new(PredictedParameters::software(
            Parameters::published(associative),
            Threshold::Fixed(1000),
        ))),
        3 => predicted(associative, Threshold::Fixed(1000)),
        4 => predicted(Organisation::PUBLISHED_DIRECT, Threshold::Fixed(1000)),
        5 => {
            let feedback = FeedbackParameters::published().shortened(EPOCHS_SHORTENED_BY);
            predicted(associative, Threshold::Feedback(Box::new(Feedback::new(feedback))))
        }
        _ => {
            let mut parameters = LikeOsParameters::usual();
            parameters.epoch = Time(parameters.epoch.0 / EPOCHS_SHORTENED_BY);
            Box::new(LikeOs::new(parameters, Box::new(Fixed::never())))
        }
    }
}
