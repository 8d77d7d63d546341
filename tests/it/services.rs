//! Statements that another program gives, run by the library: tests/clients/test_services.py has stores in emulators of object stores, and
//! compares what is printed here with expected values.

use datafusion::prelude::SessionContext;

use crate::common::run;
use crate::golden::objects;

/// The statements, as a JSON array of strings.
const STATEMENTS: &str = "VCZ_TEST_STATEMENTS";
/// What stands before the rows of the last statement, as a JSON array of objects.
const RESULT: &str = "the rows: ";

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_another_program() {
    let Ok(statements) = std::env::var(STATEMENTS) else {
        println!("NOT RUN: {STATEMENTS} is not set, as tests/clients/test_services.py does");
        return;
    };
    let statements: Vec<String> = serde_json::from_str(&statements).unwrap();
    let ctx = SessionContext::new();
    datafusion_vcz::session::register(&ctx).unwrap();
    let mut rows = vec![];
    for sql in &statements {
        rows = objects(&run(&ctx, sql).await);
    }
    println!("{RESULT}{}", serde_json::to_string(&rows).unwrap());
}
