//! Functions that a server removes: those that build a value whose size is an argument, without reserving memory. The table functions
//! `generate_series` and `range` stream their rows, so they stay.

use datafusion::common::Result;
use datafusion::execution::context::SessionState;
use datafusion::execution::registry::FunctionRegistry;

/// SQL names of scalar functions whose result is as large as an argument says.
const LEFT_OUT: [&str; 10] = [
    "repeat",
    "lpad",
    "rpad",
    "space",
    "range",
    "generate_series",
    "array_repeat",
    "list_repeat",
    "array_resize",
    "list_resize",
];

/// Removes these functions from a session.
///
/// # Errors
/// If the session does not allow it.
pub fn leave_out(state: &mut SessionState) -> Result<()> {
    for name in LEFT_OUT {
        if state.scalar_functions().contains_key(name) {
            state.deregister_udf(name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;

    use super::*;

    #[test]
    fn they_are_gone_under_every_name() {
        let mut state = SessionStateBuilder::new_with_default_features().build();
        assert!(state.scalar_functions().contains_key("repeat"));
        leave_out(&mut state).unwrap();
        for (name, function) in state.scalar_functions() {
            for left_out in LEFT_OUT {
                assert!(
                    name != left_out && function.name() != left_out,
                    "{name} is {}",
                    function.name()
                );
            }
        }
        assert!(state.scalar_functions().contains_key("upper"));
    }
}
