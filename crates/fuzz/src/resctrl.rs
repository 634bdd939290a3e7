//! Arbitrary text as any file of a resctrl tree, as a plan and as a journal: read, or refused in
//! one line; what was read comes back.

use std::path::Path;

use halfwink_resctrl::{text, Error, Journal, Plan, Schemata};

fn one_line<T>(result: Result<T, Error>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().contains('\n'), "{error}")).ok()
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let data = crate::text(bytes);
    let path = Path::new("file");
    if let Some(read) = one_line(Schemata::parse(data, path)) {
        let again = Schemata::parse(&read.to_string(), path).expect("our own");
        assert_eq!(again, read);
    }
    if let Some(mode) = one_line(text::kernel_mode(data, path)) {
        let again = text::kernel_mode(&mode.show(), path).expect("our own");
        assert_eq!(again, mode);
    }
    if let Some(cpus) = one_line(text::cpus(data, path)) {
        assert_eq!(text::cpus(&text::show_cpus(&cpus), path).expect("our own"), cpus);
    }
    one_line(text::tasks(data, path));
    one_line(text::mask(data, path));
    one_line(text::count(data, path));
    one_line(text::flag(data, path));
    one_line(Plan::parse(data, path));
    one_line(Journal::parse(data, path));
}
