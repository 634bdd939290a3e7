#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| halfwink_fuzz_targets::drmemtrace::run(bytes));
