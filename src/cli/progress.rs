//! The progress bar of long scans, on standard error when that is a terminal.
//!
//! A thread looks at the session's [`ProgressTracker`] ten times a second and draws once a scan has run for a second. The bar is
//! cleared by the thread that ends the last scan, before any result of the query is printed.

use std::io::{IsTerminal, stderr};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::scan::progress::{Progress, ProgressTracker};

/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);
/// Scans that take less than this show no bar.
const DELAY: Duration = Duration::from_secs(1);

const TEMPLATE: &str = "{bar:40} {percent:>3}%  {human_pos} of {human_len} variants  {msg}";

/// The bar that is shown, if any.
type Screen = Arc<Mutex<Option<ProgressBar>>>;

/// Starts to watch the scans of a session; does nothing if standard error is not a terminal.
pub fn start(ctx: &SessionContext) {
    if !stderr().is_terminal() {
        return;
    }
    let screen = Screen::default();
    let tracker = {
        let screen = Arc::clone(&screen);
        Arc::new(ProgressTracker::new(move || clear(&screen)))
    };
    let watched = Arc::downgrade(&tracker);
    ctx.state_ref().write().config_mut().set_extension(tracker);
    // If the thread cannot be started there is no bar; queries still run.
    let _ = thread::Builder::new()
        .name("vcz-progress".to_string())
        .spawn(move || watch(&watched, &screen));
}

/// Draws until the session is dropped.
fn watch(tracker: &Weak<ProgressTracker>, screen: &Screen) {
    let mut epoch = 0;
    let mut since = Instant::now();
    loop {
        thread::sleep(TICK);
        let Some(tracker) = tracker.upgrade() else {
            return;
        };
        let now = tracker.now();
        if now.epoch != epoch {
            (epoch, since) = (now.epoch, Instant::now());
        }
        if now.running > 0 && since.elapsed() >= DELAY {
            draw(&tracker, screen, since);
        }
    }
}

fn draw(tracker: &ProgressTracker, screen: &Screen, since: Instant) {
    let mut bar = screen.lock();
    // Checked again under the lock, because a bar that is drawn after `clear` would stay.
    let now = tracker.now();
    if now.running == 0 {
        return;
    }
    let bar = bar.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(Some(now.total), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.with_style(style).with_position(now.done)
    });
    bar.set_length(now.total);
    bar.set_position(now.done.min(now.total));
    bar.set_message(times(now, since.elapsed()));
}

/// The elapsed time, and the remaining time at the same speed: `12 s, about 30 s left`.
fn times(now: Progress, passed: Duration) -> String {
    let passed = passed.as_secs_f64();
    if now.done == 0 || now.done >= now.total {
        return format!("{passed:.0} s");
    }
    let left = passed * (now.total - now.done) as f64 / now.done as f64;
    format!("{passed:.0} s, about {left:.0} s left")
}

fn clear(screen: &Screen) {
    if let Some(bar) = screen.lock().take() {
        bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left() {
        let progress = |done| Progress {
            running: 1,
            done,
            total: 400,
            epoch: 1,
        };
        assert_eq!(times(progress(0), Duration::from_secs(9)), "9 s");
        assert_eq!(
            times(progress(100), Duration::from_secs(10)),
            "10 s, about 30 s left"
        );
        assert_eq!(times(progress(400), Duration::from_secs(40)), "40 s");
        assert_eq!(times(progress(500), Duration::from_secs(40)), "40 s");
    }

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
