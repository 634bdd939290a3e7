//! A preheating daemon's page.

use halfwink_daemon::openmetrics::{event_log, meters, Count, Page};

use crate::program::Report as PreheatReport;

const COUNTS: [Count<PreheatReport>; 9] = [
    ("announcements", "Announcements that were believed", |r| r.counts.heard),
    ("unknown", "Announcements of services that have no set here", |r| r.counts.unknown),
    ("handshakes", "Handshakes that were taken for announcements", |r| r.counts.handshakes),
    ("loads", "Loads of the set", |r| r.counts.loads),
    ("loads_failed", "Loads that failed", |r| r.counts.failed),
    ("kernel_lines", "Lines of the kernel that were loaded", |r| r.counts.kernel_lines),
    ("restarts", "Restarts of the service that were seen", |r| r.counts.restarts),
    ("not_done", "Actions of the policy that an unmodified server does not allow", |r| {
        r.counts.not_done
    }),
    ("wakes", "Times that the thread woke", |r| r.counts.wakes),
];

/// A preheating daemon's page.
pub(crate) fn preheat(report: &PreheatReport) -> String {
    let mut page = Page::default();
    page.counts("halfwink_preheat", &COUNTS, report);
    let help = "Datagrams that were no valid announcement, by reason";
    let mut refused = page.counter("halfwink_preheat_refused", help);
    report.counts.refused.iter().for_each(|(why, count)| refused.add(&[("why", why)], count));
    event_log(&mut page, &report.log);
    meters(&mut page, &report.measured);
    page.end()
}
