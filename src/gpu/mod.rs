//! Decoding and counting on NVIDIA GPUs.
//!
//! Above `codec` and `counts`, whose answers it must give bit for bit, and below `scan`, which chooses between it and
//! them. Building needs nothing of CUDA, and [`plan`] neither a device nor a driver.

pub mod plan;
