//! The checks of the repository, as tests.

#[test]
fn no_import_runs_upwards() {
    run("floors");
}

#[test]
fn circles_of_imports_do_not_grow() {
    run("circles");
}

#[test]
fn prose_counts_stay_below_ceilings() {
    run("prose");
}

#[test]
fn long_files_have_reasons() {
    run("why");
}

#[test]
fn policies_as_wasm_import_nothing() {
    run("wasm");
}

#[test]
fn live_programs_and_preloaded_libraries_are_small() {
    run("weigh");
}

#[test]
fn the_tree_is_tidy() {
    run("tidy");
}

fn run(name: &str) {
    let (_, check) = xtask::checks().into_iter().find(|(n, _)| *n == name).expect("a known check");
    match check(&xtask::root()) {
        Ok(found) => eprintln!("{found}"),
        Err(problems) => panic!("{}", problems.join("\n")),
    }
}
