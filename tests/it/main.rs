//! Integration tests, in one binary because each one links DataFusion.

mod bad_input;
mod common;
mod golden;
mod laws;
mod layers;
mod memory;
mod missing_data;
mod partitions;
mod queries;
mod sqllogic;
mod windows;
