#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| halfwink_fuzz_targets::idle_gaps::run(bytes));
