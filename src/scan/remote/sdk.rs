//! S3 with the credentials that the AWS SDK finds: environment variables, profiles, single sign-on, roles of the machine. The SDK is a
//! dependency of the DataFusion CLI; without it, object_store looks for credentials in the environment and on the machine.

use datafusion::common::Result;
use object_store::aws::AmazonS3Builder;
use url::Url;

/// A builder for the bucket of `url`, with credentials, or without signatures if there are none. If `region` is given, it is used.
///
/// # Errors
/// If credentials are configured but not available, or the bucket's region is not given and cannot be found.
#[cfg(feature = "cli")]
pub async fn builder(url: &Url, region: Option<&str>) -> Result<AmazonS3Builder> {
    let options = datafusion_cli::object_storage::AwsOptions {
        region: region.map(str::to_string),
        ..Default::default()
    };
    datafusion_cli::object_storage::get_s3_object_store_builder(url, &options, false).await
}

/// A builder from environment variables.
#[cfg(not(feature = "cli"))]
#[expect(clippy::unused_async, reason = "the other one waits")]
pub async fn builder(_url: &Url, region: Option<&str>) -> Result<AmazonS3Builder> {
    let builder = AmazonS3Builder::from_env();
    Ok(match region {
        Some(region) => builder.with_region(region),
        None => builder,
    })
}
