//! Many independent runs on all host cores.

use std::panic::resume_unwind;
use std::thread;

/// Does `work` for each item; results in the order of the items, whatever ran beside what.
pub(crate) fn parallel<T: Send + Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    let work = &work;
    let share =
        // By stride rather than in blocks: neighbours cost alike (a sweep of loads), so that blocks
        // would leave one thread with all the long ones.
        |first: usize| -> Vec<R> { items.iter().skip(first).step_by(workers).map(work).collect() };
    let mut parts: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|first| scope.spawn(move || share(first))).collect();
        // A thread that panicked has said so; the panic goes on here.
        let joined = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| resume_unwind(p)));
        joined.map(Vec::into_iter).collect()
    });
    (0..items.len()).filter_map(|n| parts[n % workers].next()).collect()
}

#[cfg(test)]
mod tests {
    use super::parallel;

    #[test]
    fn results_are_in_the_order_of_their_items() {
        for count in [0, 1, 2, 7, 100] {
            let items: Vec<u64> = (0..count).collect();
            let squares: Vec<u64> = items.iter().map(|n| n * n).collect();
            assert_eq!(parallel(&items, |n| n * n), squares);
        }
    }
}
