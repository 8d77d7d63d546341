//! S3 with the credentials that the AWS SDK finds: environment variables, profiles, single sign-on, roles of the machine. The DataFusion
//! CLI brings the SDK; without it, object_store looks for them in the environment and on the machine.

use datafusion::common::Result;
use object_store::aws::AmazonS3Builder;
use url::Url;

/// A builder for the bucket of `url`, with credentials, or without signatures where there are none. A `region` is not looked for.
///
/// # Errors
/// If credentials are configured and cannot be had, or the bucket's region is asked for and not known.
#[cfg(feature = "cli")]
pub async fn builder(url: &Url, region: Option<&str>) -> Result<AmazonS3Builder> {
    let options = datafusion_cli::object_storage::AwsOptions {
        region: region.map(str::to_string),
        ..Default::default()
    };
    datafusion_cli::object_storage::get_s3_object_store_builder(url, &options, false).await
}

/// A builder with what the environment says.
#[cfg(not(feature = "cli"))]
#[expect(clippy::unused_async, reason = "the other one waits")]
pub async fn builder(_url: &Url, region: Option<&str>) -> Result<AmazonS3Builder> {
    let builder = AmazonS3Builder::from_env();
    Ok(match region {
        Some(region) => builder.with_region(region),
        None => builder,
    })
}
