//! GPUs in a scan; nothing else in `scan` names `crate::gpu`, but for [`sizes`](super::sizes).
//!
//! * `device`: the GPUs of an execution, whether there are any, and what they decode.
//! * `choose`: whether a scan is worth a GPU.
//! * `reader`: what a GPU has to do with an array's chunks; `submit`: chunks on their way to it and back.

mod choose;
mod device;
mod reader;
mod submit;

pub use choose::choose;
pub use device::{Device, of_array, settled, warm_up};
pub use reader::open;
