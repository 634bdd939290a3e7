//! Generated services, warmed up once.

use std::sync::{Arc, OnceLock};

use halfwink_trace::{Service, ServiceSource, WarmSet};

/// A generated service. Its warm-up takes as long as many a run, so all runs share it.
#[derive(Debug)]
pub(crate) struct WarmService {
    pub(crate) spec: Service,
    warm: OnceLock<(ServiceSource, Arc<WarmSet>)>,
}

impl WarmService {
    pub(crate) fn new(spec: Service) -> WarmService {
        WarmService { spec, warm: OnceLock::new() }
    }

    fn get(&self) -> &(ServiceSource, Arc<WarmSet>) {
        self.warm.get_or_init(|| {
            let (source, warm) = self.spec.warm_source();
            (source, Arc::new(warm))
        })
    }

    /// Returns its stream, from the first instruction behind the warm-up.
    pub(crate) fn source(&self) -> ServiceSource {
        self.get().0.clone()
    }

    /// The lines that the warm-up left.
    pub(crate) fn warm(&self) -> Arc<WarmSet> {
        Arc::clone(&self.get().1)
    }
}

#[cfg(test)]
mod tests {
    use crate::shipped::library;
    use crate::table::Value;

    #[test]
    fn a_service_is_a_workload_by_name() {
        let library = library();
        let workload = library.workload("syn-apache:instructions=300000,warm-up=100000").unwrap();
        assert_eq!((workload.cores(), workload.instructions(None)), (1, 300_000));
        assert_eq!(workload.unit_of_work(), "instruction");
        let other = library.workload("syn-apache:instructions=300000,seed=2").unwrap();
        assert_ne!(workload.identity(), other.identity());
        // Its warm-up is played once, also for a name that is looked up again.
        let again = library.workload("syn-apache:instructions=300000,warm-up=100000").unwrap();
        let warm = |workload: &super::super::workload::Workload| {
            std::sync::Arc::clone(&workload.tasks(None).unwrap()[0].warm)
        };
        assert!(std::sync::Arc::ptr_eq(&warm(&workload), &warm(&again)));
        let listed = library.workloads().unwrap();
        let about = listed.iter().find(|info| info.name == "syn-mcf").unwrap();
        assert_eq!(about.kind, "synthetic");
        assert!(about.description.contains("Nellans 2014, Tables 5.1 to 5.3"));
    }

    #[test]
    fn wrong_settings_are_one_line() {
        let library = library();
        let complaint = |name: &str| library.workload(name).unwrap_err().to_string();
        assert!(complaint("syn-apache:seeds=1").contains("did you mean `seed`?"));
        assert!(complaint("syn-apache:seed=x").contains("expected `seed=NUMBER`"));
        assert!(complaint("syn-apach").contains("syn-apache"));
    }

    #[test]
    fn the_kernel_in_it_can_be_profiled() {
        let name = "syn-specjbb:instructions=2000000,warm-up=0";
        let tables = library().os_profile(name, "16KB:2 16KB:2 1MB:16", &[]).unwrap();
        let entries = &tables.iter().find(|table| table.0 == "entries").unwrap().1;
        let kinds = &entries.columns[0].values;
        for kind in ["syscall", "interrupt", "exception"] {
            assert!(kinds.contains(&Value::from(kind)), "{kind}");
        }
    }
}
