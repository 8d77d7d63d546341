//! GPUs in a scan. Nothing else in `scan` uses `crate::gpu`, except [`sizes`](super::sizes).
//!
//! * `device`: the GPUs of an execution, whether there are any, and what they decode.
//! * `choose`: GPU or host, by predicted time.
//! * `pairs`: the GPUs that count pairs for aggregates.
//! * `reader`: the work of a GPU on an array's chunks; `submit`: passing chunks to its queue and waiting for results.

mod choose;
mod device;
mod pairs;
mod reader;
mod submit;

pub use choose::choose;
pub use device::{Gpus, can_filter, of_array, wait_for_status, warm_up};
pub use pairs::{count_pairs, pair_device, site_device};
pub use reader::open;
