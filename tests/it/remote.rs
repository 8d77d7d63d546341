//! Object stores by options of a table, against a small HTTP server: what is sent, and that no credential is shown.

use datafusion::prelude::SessionContext;

use crate::common::{fails, fixtures, plain_session, row, run};
use crate::http::{Behaviour, HttpServer};

const SFS: &str = "SELECT sfs(call_genotype), min(variant_position) FROM";

/// A server with the fixture `sim` as a zip archive, in the bucket `box`.
async fn server(denies: bool) -> HttpServer {
    let zip = std::fs::read(fixtures().join("sim.vcz.zip")).unwrap();
    let behaviour = Behaviour {
        denies,
        ..Behaviour::default()
    };
    HttpServer::start([("/box/sim.vcz.zip".to_string(), zip)], behaviour).await
}

fn table(name: &str, location: &str, options: &[(&str, &str)]) -> String {
    let options = options
        .iter()
        .map(|(key, value)| format!("'{key}' '{value}'"));
    let options = options.collect::<Vec<_>>().join(", ");
    format!("CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION '{location}' OPTIONS ({options})")
}

/// The answer of the local store.
async fn local(ctx: &SessionContext) -> String {
    let store = fixtures().join("sim.vcz.zip");
    format!(
        "{:?}",
        row(ctx, &format!("{SFS} '{}'", store.display())).await
    )
}

#[tokio::test]
async fn tables_in_one_bucket_have_their_own_credentials() {
    let (server, ctx) = (server(false).await, plain_session());
    let location = "s3://box/sim.vcz.zip";
    let shared = [
        ("aws.endpoint", server.url()),
        ("aws.allow_http", "true".to_string()),
    ];
    let with = |more: &[(&'static str, &'static str)]| {
        let shared = shared.iter().map(|(key, value)| (*key, value.clone()));
        let more = more.iter().map(|(key, value)| (*key, value.to_string()));
        shared.chain(more).collect::<Vec<_>>()
    };
    let cases = [
        (
            "a",
            with(&[
                ("aws.access_key_id", "KEYONE"),
                ("aws.secret_access_key", "one"),
            ]),
            Some("credential=keyone/"),
        ),
        (
            "b",
            with(&[
                ("aws.access_key_id", "KEYTWO"),
                ("aws.secret_access_key", "two"),
                ("aws.region", "eu-west-3"),
                ("aws.request_payer", "true"),
            ]),
            Some("credential=keytwo/"),
        ),
        ("c", with(&[("aws.skip_signature", "true")]), None),
    ];
    let expected = local(&ctx).await;
    for (name, options, credential) in &cases {
        let options: Vec<(&str, &str)> = options.iter().map(|(k, v)| (*k, v.as_str())).collect();
        run(&ctx, &table(name, location, &options)).await;
        let asked = server.take();
        assert!(!asked.is_empty());
        for request in asked {
            assert!(
                request.path.starts_with("/box/sim.vcz.zip"),
                "{}",
                request.path
            );
            match credential {
                Some(credential) => assert!(request.lines.contains(credential), "{request:?}"),
                None => assert!(!request.lines.contains("authorization"), "{request:?}"),
            }
            let pays = request.lines.contains("x-amz-request-payer: requester");
            assert_eq!(pays, *name == "b", "{request:?}");
            assert_eq!(request.lines.contains("/eu-west-3/s3/"), *name == "b");
        }
    }
    // The tables made later change nothing for those made before.
    for (name, _, _) in cases {
        let answer = row(&ctx, &format!("{SFS} {name}")).await;
        assert_eq!(format!("{answer:?}"), expected);
    }
}

#[tokio::test]
async fn credentials_are_never_shown() {
    let (server, ctx) = (server(false).await, plain_session());
    let secrets = [
        "AKIASECRETID",
        "TopSecretKey",
        "SessionSecret",
        "url-password",
        "url-signature",
    ];
    let is_clean = |text: &str| {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is shown: {text}");
        }
    };
    let endpoint = server.url();
    let options = [
        ("aws.endpoint", endpoint.as_str()),
        ("aws.allow_http", "true"),
        ("aws.access_key_id", secrets[0]),
        ("aws.secret_access_key", secrets[1]),
        ("aws.session_token", secrets[2]),
    ];
    let create = table("t", "s3://box/sim.vcz.zip", &options);
    run(&ctx, &create).await;
    run(&ctx, "SET datafusion.catalog.information_schema = true").await;
    let mut statements = vec![
        "EXPLAIN VERBOSE SELECT sfs(call_genotype) FROM t".to_string(),
        "EXPLAIN ANALYZE SELECT sfs(call_genotype) FROM t".to_string(),
        "EXPLAIN FORMAT INDENT SELECT * FROM t".to_string(),
        "SHOW ALL".to_string(),
        "SHOW CREATE TABLE t".to_string(),
        "SHOW TABLES".to_string(),
        "DESCRIBE t".to_string(),
        "SELECT * FROM vcz_arrays('t')".to_string(),
    ];
    for name in ["tables", "views", "columns", "df_settings", "schemata"] {
        statements.push(format!("SELECT * FROM information_schema.{name}"));
    }
    for sql in &statements {
        let batches = run(&ctx, sql).await;
        assert!(!batches.is_empty(), "{sql}");
        is_clean(
            &arrow::util::pretty::pretty_format_batches(&batches)
                .unwrap()
                .to_string(),
        );
    }
    let plan = ctx.state().create_logical_plan(&create).await.unwrap();
    is_clean(&plan.display_indent_schema().to_string());
    let provider = ctx.table_provider("t").await.unwrap();
    is_clean(&format!("{provider:?}"));
    let plan = ctx.sql("SELECT * FROM t").await.unwrap();
    is_clean(&format!("{:?}", plan.create_physical_plan().await.unwrap()));

    // A server that repeats the request in its answer, as some do.
    let denying = self::server(true).await;
    let endpoint = denying.url();
    let denied = [("aws.endpoint", endpoint.as_str())];
    let denied = [&denied[..], &options[1..]].concat();
    let error = fails(&ctx, &table("u", "s3://box/sim.vcz.zip", &denied)).await;
    is_clean(&error);
    assert!(
        error.contains("***") && error.contains("s3://box/sim.vcz.zip"),
        "{error}"
    );
    for (key, value) in [
        ("aws.allow_http", "false"),
        ("aws.sesion_token", secrets[2]),
    ] {
        let mut wrong = options.to_vec();
        wrong.retain(|(known, _)| *known != key);
        wrong.push((key, value));
        let error = fails(&ctx, &table("u", "s3://box/sim.vcz.zip", &wrong)).await;
        is_clean(&error);
        assert!(error.contains("'aws."), "{error}");
    }
    // In URLs.
    let host = denying.address;
    let url = format!(
        "http://me:{}@{host}/box/sim.vcz.zip?signature={}",
        secrets[3], secrets[4]
    );
    let error = fails(&ctx, &table("u", &url, &[("retry.max_retries", "0")])).await;
    is_clean(&error);
    assert!(
        error.contains(&format!("http://{host}/box/sim.vcz.zip?…")),
        "{error}"
    );
}

#[tokio::test]
async fn options_for_http_servers_and_wrong_ones() {
    let (server, ctx) = (server(false).await, plain_session());
    let location = format!("{}/box/sim.vcz.zip", server.url());
    let patient = [
        ("http.timeout", "20s"),
        ("retry.max_retries", "1"),
        ("retry.timeout", "10s"),
    ];
    run(&ctx, &table("t", &location, &patient)).await;
    let answer = row(&ctx, &format!("{SFS} t")).await;
    assert_eq!(format!("{answer:?}"), local(&ctx).await);

    let local = fixtures().join("sim.vcz.zip");
    let cases = [
        (location.as_str(), ("aws.region", "x"), "begin with 'http.'"),
        (
            "s3://box/x.vcz",
            ("gcp.skip_signature", "true"),
            "begin with 'aws.'",
        ),
        ("s3://box/x.vcz", ("aws.reigon", "x"), "'aws.region'"),
        (
            local.to_str().unwrap(),
            ("http.timeout", "1s"),
            "is for object stores",
        ),
        (
            "az://box/x.vcz",
            ("azure.acount_name", "x"),
            "'azure.account_name'",
        ),
        ("az://box/x.vcz", ("aws.region", "x"), "begin with 'azure.'"),
        ("s3://box/x.vcz", ("vcz.nothing", "x"), "'aws.region'"),
    ];
    for (location, option, expected) in cases {
        let error = fails(&ctx, &table("u", location, &[option])).await;
        assert!(error.contains(expected), "{error}");
    }
    // A server that does not answer in time.
    let zip = std::fs::read(&local).unwrap();
    let slow = Behaviour {
        delay: std::time::Duration::from_secs(60),
        ..Behaviour::default()
    };
    let slow = HttpServer::start([("/x.vcz.zip".to_string(), zip)], slow).await;
    let hasty = [("http.timeout", "100ms"), ("retry.max_retries", "0")];
    let started = std::time::Instant::now();
    fails(
        &ctx,
        &table("u", &format!("{}/x.vcz.zip", slow.url()), &hasty),
    )
    .await;
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}
