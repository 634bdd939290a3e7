//! What tests share: copies of the small trees, and trees that fail at a given write.
#![allow(dead_code, missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use halfwink_resctrl::{
    apply, open, plan, Applied, Assign, Error, Files, Plan, Request, Service, State,
};

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A copy of a small tree, and the folder that it is in.
pub fn tree(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there").join(name);
    copy(&fixture(name), &root);
    (folder, root)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let from = entry.expect("an entry").path();
        let to = to.join(from.file_name().expect("a name"));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("a copy");
        }
    }
}

/// Every file of a tree with its bytes, every folder with none.
pub fn bytes(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(bytes(&path));
            found.insert(path, None);
        } else {
            let held = fs::read(&path).expect("a file");
            found.insert(path, Some(held));
        }
    }
    found
}

pub fn assign() -> Assign {
    Assign { proc: fixture("proc") }
}

pub fn journal(root: &Path) -> PathBuf {
    root.with_extension("journal")
}

/// Four ways for the kernel, and two services.
pub fn request(services: bool) -> Request {
    let service = |name: &str, ways, cpus: &str, task| Service {
        name: name.to_owned(),
        ways,
        cpus: cpus.to_owned(),
        tasks: vec![task],
    };
    let both = vec![service("web", 3, "", 101), service("cache", 2, "2-3", 202)];
    Request {
        workload: "apache".to_owned(),
        kernel_ways: Some(4),
        services: if services { both } else { Vec::new() },
        ..Request::default()
    }
}

pub fn planned(root: &Path, request: &Request) -> Plan {
    let files = open(root).expect("a tree");
    let state = State::read(files.as_ref()).expect("its state");
    plan(&state, request, None).expect("a plan")
}

pub fn applied(root: &Path, plan: &Plan) -> Result<Applied, Error> {
    let mut files = open(root).expect("a tree");
    apply(files.as_mut(), plan, &assign(), &journal(root))
}

/// What happens at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused, all others are not.
    Refused,
    /// The process ends before it: nothing is written any more.
    Dead,
    /// The tree is gone.
    Gone,
    /// Nothing goes on, and the marker says so: somebody kills this process.
    Stuck,
}

/// A tree that fails at one of its writes, counted from 0.
pub struct Faulty {
    pub inner: Box<dyn Files>,
    pub at: usize,
    pub fault: Fault,
    pub writes: usize,
}

impl Faulty {
    pub fn new(root: &Path, at: usize, fault: Fault) -> Faulty {
        Faulty { inner: open(root).expect("a tree"), at, fault, writes: 0 }
    }

    pub fn elsewhere(root: &Path) -> PathBuf {
        root.with_extension("elsewhere")
    }

    pub fn marker(root: &Path) -> PathBuf {
        root.with_extension("stuck")
    }

    fn count(&mut self) -> io::Result<()> {
        let n = self.writes;
        self.writes += 1;
        let root = self.inner.root();
        match self.fault {
            Fault::Refused if n == self.at => Err(io::Error::from_raw_os_error(22)),
            Fault::Dead if n >= self.at => std::panic::panic_any("dead"),
            Fault::Gone if n == self.at => {
                fs::rename(root, Faulty::elsewhere(root))?;
                Err(io::Error::from(io::ErrorKind::NotFound))
            }
            Fault::Stuck if n == self.at => {
                fs::write(Faulty::marker(root), "")?;
                loop {
                    std::thread::park();
                }
            }
            _ => Ok(()),
        }
    }
}

impl Files for Faulty {
    fn root(&self) -> &Path {
        self.inner.root()
    }

    fn is_mounted(&self) -> bool {
        self.inner.is_mounted()
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.count()?;
        self.inner.write(path, text)
    }

    fn make_group(&mut self, name: &str) -> io::Result<()> {
        self.count()?;
        self.inner.make_group(name)
    }

    fn remove_group(&mut self, name: &str) -> io::Result<()> {
        self.count()?;
        self.inner.remove_group(name)
    }
}
