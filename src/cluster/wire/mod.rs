//! Operators, functions and scans as bytes: what DataFusion's own encoding of plans leaves out.
//!
//! * `codec`: [`VczCodec`](codec::VczCodec), DataFusion's hooks for this crate's operators and functions.
//! * `frame`: what the bytes begin with. `messages`: the messages, as Protocol Buffers. `samples`, `calls`: sets of samples, contexts of genotypes and calls on them.
//! * `scan`: scans of tables; `operators`: this crate's operators, and DataFusion's with functions of this crate; `by_population`: the
//!   aggregate that has more expressions than its calls.
//! * `functions`: functions that planning has bound to something; `field_expr`: expressions whose field has metadata.

mod by_population;
mod calls;
pub mod codec;
pub mod field_expr;
pub mod frame;
pub mod functions;
mod messages;
mod operators;
mod samples;
mod scan;
