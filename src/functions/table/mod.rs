//! Table functions: metadata of stores as tables. One file a function; [`resolve`] finds the table they are about.

pub mod resolve;
