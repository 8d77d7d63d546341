//! Notices of a statement to its user, beside its rows: sites that a statistic left out, a contig that no row can have. Functions and scans
//! add them to the session's [`Notices`]; the command line and the server take them when the statement has ended. EXPLAIN ANALYZE shows
//! the sites that each call left out, its [`SiteTotals`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The maximum number of messages that are kept, since a filter may name very many contigs.
const MOST_MESSAGES: usize = 50;

/// The notices since they were last taken.
#[derive(Debug, Default)]
pub struct Notices {
    collected: Mutex<Collected>,
}

#[derive(Debug, Default, Clone)]
struct Collected {
    messages: Vec<String>,
    /// Number of messages beyond [`MOST_MESSAGES`].
    more: usize,
    left_out: BTreeMap<Statistic, Sites>,
}

/// A statistic that leaves sites out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statistic {
    /// The function's name.
    pub function: Cow<'static, str>,
    /// Distinguishes calls of the function, e.g. `of 100 copies`.
    pub call: String,
    /// Why sites are left out, and what keeps them.
    pub reason: Cow<'static, str>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sites {
    left_out: u64,
    seen: u64,
}

impl Notices {
    /// Adds `message`, unless it was added before.
    pub fn add(&self, message: String) {
        let mut collected = self.collected.lock();
        if collected.messages.contains(&message) {
            return;
        }
        if collected.messages.len() < MOST_MESSAGES {
            collected.messages.push(message);
        } else {
            collected.more = collected.more.saturating_add(1);
        }
    }

    /// The sites that each statistic left out so far, and those that it has seen.
    pub fn left_out(&self) -> Vec<(Statistic, u64, u64)> {
        let collected = self.collected.lock();
        let counted = collected.left_out.iter();
        counted
            .map(|(statistic, sites)| (statistic.clone(), sites.left_out, sites.seen))
            .collect()
    }

    /// Records that `statistic` left out `left_out` more sites of `seen` more.
    pub fn leave_out(&self, statistic: &Statistic, left_out: u64, seen: u64) {
        let mut collected = self.collected.lock();
        let sites = collected.left_out.entry(statistic.clone()).or_default();
        sites.left_out = sites.left_out.saturating_add(left_out);
        sites.seen = sites.seen.saturating_add(seen);
    }

    /// All notices so far, as sentences.
    pub fn sentences(&self) -> Vec<String> {
        self.collected.lock().clone().into_sentences()
    }

    /// Removes all notices and returns them as sentences.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.collected.lock()).into_sentences()
    }
}

impl Collected {
    fn into_sentences(self) -> Vec<String> {
        let counted = self.left_out.into_iter();
        let counted = counted
            .filter(|(_, sites)| sites.left_out > 0)
            .map(|(statistic, sites)| {
                format!(
                    "{} {} left out {} of {} sites: {}",
                    statistic.function,
                    statistic.call,
                    with_commas(sites.left_out),
                    with_commas(sites.seen),
                    statistic.reason
                )
            });
        let more = (self.more > 0).then(|| format!("{} more like these", self.more));
        let messages = self.messages.into_iter().chain(more);
        messages.chain(counted).collect()
    }
}

/// `1234567` as `1,234,567`.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Receives a session's notices; by default none. All sinks are equal, so that notices do not affect the comparison of plans.
#[derive(Debug, Clone, Default)]
pub struct NoticeSink(pub Option<Arc<Notices>>);

impl PartialEq for NoticeSink {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for NoticeSink {}

impl NoticeSink {
    /// Passes `message` to the session's notices if it collects them, else to the log.
    pub fn add(&self, message: String) {
        match &self.0 {
            Some(notices) => notices.add(message),
            None => log::warn!("{message}"),
        }
    }

    /// The notices so far, as sentences; none if the session does not collect them.
    pub fn sentences(&self) -> Vec<String> {
        let notices = self.0.as_ref();
        notices
            .map(|notices| notices.sentences())
            .unwrap_or_default()
    }

    /// Removes the notices and returns them as sentences; none if the session does not collect them.
    pub fn take(&self) -> Vec<String> {
        let notices = self.0.as_ref();
        notices.map(|notices| notices.take()).unwrap_or_default()
    }

    /// A counter of the sites that `statistic` leaves out, which also adds them to `totals`.
    pub fn counter(&self, statistic: Statistic, totals: Option<Arc<SiteTotals>>) -> LeftOut {
        LeftOut {
            sink: self.0.clone().map(|notices| (notices, statistic)),
            totals,
            left_out: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        }
    }
}

/// The sites that one call of a function leaves out, in all partitions.
#[derive(Debug, Default)]
pub struct SiteTotals {
    left_out: AtomicU64,
}

impl SiteTotals {
    /// The number of sites left out so far.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

/// Counts the sites that one accumulator leaves out. It is used by one thread at a time; the counters are atomic only so that it can be
/// shared.
#[derive(Debug)]
pub struct LeftOut {
    sink: Option<(Arc<Notices>, Statistic)>,
    totals: Option<Arc<SiteTotals>>,
    left_out: AtomicU64,
    seen: AtomicU64,
}

impl LeftOut {
    /// Adds `left_out` of `seen` sites.
    #[inline]
    pub fn add(&self, left_out: u64, seen: u64) {
        for (total, more) in [(&self.left_out, left_out), (&self.seen, seen)] {
            let sum = total.load(Ordering::Relaxed).saturating_add(more);
            total.store(sum, Ordering::Relaxed);
        }
    }

    /// Passes the counts to the session and to the call's totals.
    pub fn report(&self) {
        if self.sink.is_none() && self.totals.is_none() {
            return;
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        let seen = self.seen.swap(0, Ordering::Relaxed);
        if seen == 0 {
            return;
        }
        if let Some((notices, statistic)) = &self.sink {
            notices.leave_out(statistic, left_out, seen);
        }
        if let Some(totals) = &self.totals {
            totals.left_out.fetch_add(left_out, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        let notices = Arc::new(Notices::default());
        let sink = NoticeSink(Some(Arc::clone(&notices)));
        let statistic = |copies: u64| Statistic {
            function: "sfs".into(),
            call: format!("of {copies} copies"),
            reason: "they have missing calls".into(),
        };
        let totals = Arc::new(SiteTotals::default());
        let counter = |copies| sink.counter(statistic(copies), Some(Arc::clone(&totals)));
        let (one, two) = (counter(10), counter(10));
        one.add(7000, 13_000);
        two.add(61, 543);
        one.report();
        two.report();
        two.report();
        counter(20).add(0, 5);
        sink.add("a".to_string());
        sink.add("a".to_string());
        let expected = [
            "a",
            "sfs of 10 copies left out 7,061 of 13,543 sites: they have missing calls",
        ];
        assert_eq!(sink.sentences(), expected);
        assert_eq!(notices.take(), expected);
        assert!(sink.take().is_empty() && sink.sentences().is_empty());
        assert_eq!(totals.left_out(), 7061);
        // A call that only EXPLAIN ANALYZE asks for.
        let alone = NoticeSink::default().counter(statistic(10), Some(Arc::clone(&totals)));
        alone.add(9, 10);
        alone.report();
        assert_eq!(totals.left_out(), 7070);
        assert!(NoticeSink::default().sentences().is_empty());
        for at in 0..MOST_MESSAGES + 2 {
            sink.add(at.to_string());
        }
        let most = sink.take();
        assert_eq!(
            (most.len(), most[MOST_MESSAGES].as_str()),
            (MOST_MESSAGES + 1, "2 more like these")
        );
    }
}
