//! Notices of a statement to its user, beside its rows: sites that a statistic left out, a contig that no row can have. Functions and scans
//! add them to the session's [`Notices`]; the command line and the server take them when the statement has ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The notices since they were last taken.
#[derive(Debug, Default)]
pub struct Notices {
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    messages: Vec<String>,
    left_out: BTreeMap<Statistic, Sites>,
}

/// A statistic that leaves sites out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statistic {
    /// The function's name.
    pub function: &'static str,
    /// Distinguishes calls of the function, e.g. `of 100 copies`.
    pub call: String,
    /// Why sites are left out, and what keeps them.
    pub reason: &'static str,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sites {
    left_out: u64,
    seen: u64,
}

impl Notices {
    /// Adds `message`, unless it was added before.
    pub fn say(&self, message: String) {
        let messages = &mut self.said.lock().messages;
        if !messages.contains(&message) {
            messages.push(message);
        }
    }

    /// Records that `statistic` left out `left_out` more sites of `seen` more.
    fn leave_out(&self, statistic: &Statistic, left_out: u64, seen: u64) {
        let mut said = self.said.lock();
        let sites = said.left_out.entry(statistic.clone()).or_default();
        sites.left_out = sites.left_out.saturating_add(left_out);
        sites.seen = sites.seen.saturating_add(seen);
    }

    /// Removes all notices and returns them as sentences.
    pub fn take(&self) -> Vec<String> {
        let said = std::mem::take(&mut *self.said.lock());
        let counted = said.left_out.into_iter();
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
        said.messages.into_iter().chain(counted).collect()
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
    pub fn say(&self, message: String) {
        match &self.0 {
            Some(notices) => notices.say(message),
            None => log::warn!("{message}"),
        }
    }

    /// A counter of the sites that `statistic` leaves out.
    pub fn counter(&self, statistic: Statistic) -> LeftOut {
        LeftOut {
            sink: self.0.clone().map(|notices| (notices, statistic)),
            left_out: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        }
    }
}

/// Counts the sites that one accumulator leaves out. It is used by one thread at a time; the counters are atomic only so that it can be
/// shared.
#[derive(Debug)]
pub struct LeftOut {
    sink: Option<(Arc<Notices>, Statistic)>,
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

    /// Passes the counts to the session.
    pub fn report(&self) {
        if let Some((notices, statistic)) = &self.sink {
            let left_out = self.left_out.swap(0, Ordering::Relaxed);
            let seen = self.seen.swap(0, Ordering::Relaxed);
            if seen > 0 {
                notices.leave_out(statistic, left_out, seen);
            }
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
            function: "sfs",
            call: format!("of {copies} copies"),
            reason: "they have missing calls",
        };
        let (one, two) = (sink.counter(statistic(10)), sink.counter(statistic(10)));
        one.add(7000, 13_000);
        two.add(61, 543);
        one.report();
        two.report();
        two.report();
        sink.counter(statistic(20)).add(0, 5);
        sink.say("a".to_string());
        sink.say("a".to_string());
        assert_eq!(
            notices.take(),
            [
                "a",
                "sfs of 10 copies left out 7,061 of 13,543 sites: they have missing calls"
            ]
        );
        assert!(notices.take().is_empty());
    }
}
