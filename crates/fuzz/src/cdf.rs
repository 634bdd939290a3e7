//! Arbitrary text as a measured distribution.

use halfwink_engine::Cdf;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    match Cdf::parse(text) {
    Ok(cdf) => {
        let drawn: Vec<f64> = (0..=16).map(|n| cdf.quantile(f64::from(n) / 16.0)).collect();
        let largest = cdf.points().last().expect("points")[0];
        assert!(drawn.iter().all(|v| (0.0..=largest * (1.0 + 1e-9)).contains(v)), "{drawn:?}");
        assert!(cdf.mean().is_finite() && cdf.variance() >= 0.0);
    }
    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
}
}
