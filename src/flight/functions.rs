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

/// Says that the server has left a function out, where `message` says that there is none of that name.
pub fn explained(message: String) -> String {
    let called = message.split_once("Invalid function '");
    let name = called
        .and_then(|(_, rest)| rest.split_once('\''))
        .map(|(name, _)| name);
    match name.filter(|name| LEFT_OUT.contains(name)) {
        Some(name) => format!(
            "this server does not have the function '{name}', because its result is as large as an argument says, whatever memory a query may use"
        ),
        None => message,
    }
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
        let message = |name: &str| {
            format!("Error during planning: Invalid function '{name}'.\nDid you mean 'replace'?")
        };
        let told = explained(message("repeat"));
        assert!(
            told.starts_with("this server does not have the function 'repeat'"),
            "{told}"
        );
        assert_eq!(explained(message("repeal")), message("repeal"));
    }
}
