//! Many independent runs on all host cores.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does `work` for each item; results in the order of the items, whatever ran beside what.
pub(crate) fn parallel<T: Send + Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    // Each takes the next one when it is free: items may cost ten times what their neighbours do.
    let next = AtomicUsize::new(0);
    let share = || -> Vec<(usize, R)> {
        let taken = std::iter::from_fn(|| {
            let n = next.fetch_add(1, Ordering::Relaxed);
            Some((n, items.get(n)?))
        });
        taken.map(|(n, item)| (n, work(item))).collect()
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(share)).collect();
        // A thread that panicked has said so; the panic goes on here.
        let joined = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| resume_unwind(p)));
        joined.flatten().collect()
    });
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
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
