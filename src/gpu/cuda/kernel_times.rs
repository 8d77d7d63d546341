//! [`KernelTimes`]: how long the kernels on a stream take, for the log.

use cudarc::driver::{result, sys};

/// The time that kernels take, as events before and after each; only measured for the log. Errors are left to the calls that follow.
#[derive(Debug, Default)]
pub(super) struct KernelTimes {
    pub(super) events: Vec<sys::CUevent>,
    /// Events that were recorded since the last sum.
    recorded: usize,
}

impl KernelTimes {
    /// Records the next event, if the times are logged.
    pub(super) fn record(&mut self, stream: sys::CUstream) {
        if !log::log_enabled!(log::Level::Debug) {
            return;
        }
        if self.recorded == self.events.len() {
            match result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT) {
                Ok(event) => self.events.push(event),
                Err(_) => return,
            }
        }
        if let Some(event) = self.events.get(self.recorded) {
            // SAFETY: the event is a live one, and so is the stream.
            let recorded = unsafe { result::event::record(*event, stream) };
            self.recorded += usize::from(recorded.is_ok());
        }
    }

    /// Milliseconds between all pairs of events, which have passed.
    pub(super) fn take(&mut self) -> f32 {
        let recorded = self.events.get(..std::mem::take(&mut self.recorded));
        let pairs = recorded.unwrap_or_default().chunks_exact(2);
        let milliseconds = pairs.map(|pair| match pair {
            // SAFETY: the events are live ones.
            [start, end] => unsafe { result::event::elapsed(*start, *end) }.unwrap_or(0.0),
            _ => 0.0,
        });
        milliseconds.sum()
    }
}
