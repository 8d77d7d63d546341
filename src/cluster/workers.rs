//! [`Workers`]: the workers of a coordinator, refreshed every few seconds: which there are, which answer, and which are of this build.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::{Result, config_err};
use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use url::Url;

use super::channels::Channels;
use super::config::ClusterConfig;
use super::shown::shown;
use super::wire::frame::WIRE_VERSION;

/// Time between two refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// Time that a worker has to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// Time for which a worker that failed a query is left out.
const LEFT_OUT: Duration = Duration::from_secs(30);

/// What is known of a worker.
#[derive(Debug, Clone)]
struct Known {
    /// The partitions that it runs at the same time, or why it is not used.
    answer: std::result::Result<usize, String>,
    /// It is not used before this time.
    not_before: Option<Instant>,
}

/// The workers of a coordinator.
#[derive(Debug)]
pub struct Workers {
    places: Vec<String>,
    scheme: &'static str,
    channels: Arc<Channels>,
    known: Mutex<BTreeMap<Url, Known>>,
    /// The workers of each place when it could last be looked up.
    found: Mutex<BTreeMap<String, Vec<Url>>>,
    /// Whether workers on other machines may be sent the token.
    is_private: bool,
    looking: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(looking) = self.looking.lock().take() {
            looking.abort();
        }
    }
}

impl Workers {
    /// The workers that `config` names, looked up at once and then every few seconds. It is no error if none answers.
    ///
    /// # Errors
    /// If a place is not valid, or a file of the configuration cannot be read.
    pub async fn connect(config: &ClusterConfig) -> Result<Arc<Self>> {
        let places = config.workers.iter().flat_map(|text| text.split(','));
        let places: Vec<String> = places.map(|place| place.trim().to_string()).collect();
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        for place in &places {
            match place.strip_prefix("file:") {
                Some("") => {
                    return config_err!(
                        "'file:' must be followed by the path of a file of workers"
                    );
                }
                Some(_) => {}
                None => drop(url(scheme, place.strip_prefix("dns:").unwrap_or(place))?),
            }
        }
        if let Some(place) = places.iter().find(|place| !place.starts_with("file:"))
            && config.token_file.is_some()
            && config.tls.is_none()
            && !is_loopback(&url(scheme, place.strip_prefix("dns:").unwrap_or(place))?)
        {
            return config_err!(
                "the token would be sent to {place} in plain text: give the certificates of the workers (--workers-ca)"
            );
        }
        let workers = Arc::new(Self {
            places,
            scheme,
            channels: Arc::new(Channels::new(config)?),
            known: Mutex::default(),
            found: Mutex::default(),
            is_private: config.token_file.is_none() || config.tls.is_some(),
            looking: Mutex::default(),
        });
        workers.refresh().await;
        let weak = Arc::downgrade(&workers);
        let looking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(REFRESH_INTERVAL).await;
                match weak.upgrade() {
                    Some(workers) => workers.refresh().await,
                    None => return,
                }
            }
        });
        *workers.looking.lock() = Some(looking);
        Ok(workers)
    }

    /// The connections to workers.
    pub fn channels(&self) -> &Arc<Channels> {
        &self.channels
    }

    /// The workers that can be used now.
    pub fn usable(&self) -> Vec<Url> {
        let now = Instant::now();
        let known = self.known.lock();
        let usable = known.iter().filter(|(_, known)| {
            known.answer.is_ok() && known.not_before.is_none_or(|time| time <= now)
        });
        usable.map(|(url, _)| url.clone()).collect()
    }

    /// The number of all workers, and why those that cannot be used are not.
    pub fn unusable(&self) -> (usize, Vec<String>) {
        let known = self.known.lock();
        let reasons = known.iter().filter_map(|(url, known)| {
            let reason = known.answer.as_ref().err()?;
            Some(format!("{}: {reason}", shown(url)))
        });
        (known.len(), reasons.collect())
    }

    /// The partitions that each worker runs at the same time: the fewest of those that can be used.
    pub fn partitions(&self) -> usize {
        let known = self.known.lock();
        let partitions = known
            .values()
            .filter_map(|known| known.answer.as_ref().ok());
        partitions.min().copied().unwrap_or(1).max(1)
    }

    /// Asks each of `urls`, of which one may have failed a query, whether it still answers. Those that do not are left out for a while;
    /// returns them.
    pub async fn lost(&self, urls: &[Url]) -> Vec<Url> {
        let asked = urls.iter().map(|url| async move {
            match self.ask(url).await {
                Ok(partitions) => (url, Ok(partitions)),
                // The connection may be broken, and the worker not.
                Err(_) => {
                    self.channels.forget(url);
                    (url, self.ask(url).await)
                }
            }
        });
        let mut lost = vec![];
        for (url, answer) in join_all(asked).await {
            if let Err(reason) = &answer {
                log::warn!(worker:% = shown(url); "worker {} is left out for {LEFT_OUT:?}: {reason}", shown(url));
                lost.push(url.clone());
                let known = Known {
                    answer,
                    not_before: Some(Instant::now() + LEFT_OUT),
                };
                self.known.lock().insert(url.clone(), known);
            }
        }
        lost
    }

    /// Looks up the workers and asks each for its version.
    async fn refresh(&self) {
        let mut urls = vec![];
        for place in &self.places {
            let mut found = vec![];
            let looked_up = self.find(place, &mut found).await;
            let mut last = self.found.lock();
            if let (false, Some(before)) = (looked_up, last.get(place)) {
                // It cannot be looked up now: what it was before.
                found.clone_from(before);
            }
            urls.extend(found.iter().cloned());
            last.insert(place.clone(), found);
        }
        urls.sort();
        urls.dedup();
        let asked = urls
            .iter()
            .map(|url| async move { (url, self.ask(url).await) });
        let answers = join_all(asked).await;
        let mut known = self.known.lock();
        known.retain(|url, _| urls.contains(url));
        for (url, answer) in answers {
            let before = known.get(url);
            let changed = match (before.map(|before| &before.answer), &answer) {
                (Some(Ok(_)), Ok(_)) => false,
                (Some(Err(before)), Err(now)) => before != now,
                _ => true,
            };
            if changed {
                match &answer {
                    Ok(partitions) => {
                        log::info!(worker:% = shown(url); "worker {} runs {partitions} partitions", shown(url));
                    }
                    Err(reason) => {
                        log::warn!(worker:% = shown(url); "worker {} is not used: {reason}", shown(url));
                    }
                }
            }
            let not_before = before.and_then(|before| before.not_before);
            known.insert(url.clone(), Known { answer, not_before });
        }
    }

    /// Adds the workers at a place to `urls`. Returns whether it could be looked up.
    async fn find(&self, place: &str, urls: &mut Vec<Url>) -> bool {
        if let Some(path) = place.strip_prefix("file:") {
            let text = match tokio::fs::read_to_string(path).await {
                Ok(text) => text,
                Err(error) => {
                    log::warn!("cannot read the file of workers '{path}': {error}");
                    return false;
                }
            };
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            let mut all = true;
            for line in lines.filter(|line| !line.starts_with("file:")) {
                all &= Box::pin(self.find(line, urls)).await;
            }
            return all;
        }
        let Some(name) = place.strip_prefix("dns:") else {
            match url(self.scheme, place) {
                Ok(url) if self.is_private || is_loopback(&url) => urls.push(url),
                Ok(_) => log::warn!(
                    "the worker {place} is not used: the token would be sent to it in plain text"
                ),
                Err(error) => log::warn!("{}", error.message()),
            }
            return true;
        };
        let looking = tokio::time::timeout(ANSWER, tokio::net::lookup_host(name));
        let addresses = match looking.await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => {
                log::warn!("cannot look up the workers '{name}': {error}");
                return false;
            }
            Err(_) => {
                log::warn!("cannot look up the workers '{name}' within {ANSWER:?}");
                return false;
            }
        };
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        for address in addresses {
            if let Ok(url) = url(self.scheme, &address.to_string()) {
                self.channels.expect_name(&url, host);
                urls.push(url);
            }
        }
        true
    }

    /// The number of partitions of a worker, or why it cannot be used.
    async fn ask(&self, url: &Url) -> std::result::Result<usize, String> {
        let asking = async {
            let mut channel = self.channels.get_worker_client_for_url(url).await?;
            channel.get_worker_info(GetWorkerInfoRequest {}).await
        };
        let answer = match tokio::time::timeout(ANSWER, asking).await {
            Ok(answer) => answer.map_err(|error| error.strip_backtrace())?,
            Err(_) => {
                self.channels.forget(url);
                return Err(format!("no answer within {ANSWER:?}"));
            }
        };
        parse_version(&answer.version)
    }
}

/// What a worker says of itself: its version, and the partitions that it runs at the same time.
pub fn version(partitions: usize) -> String {
    format!("datafusion-vcz {WIRE_VERSION} partitions={partitions}")
}

fn parse_version(text: &str) -> std::result::Result<usize, String> {
    let mut words = text.split(' ');
    let of_program = words.next() == Some("datafusion-vcz");
    match (of_program, words.next()) {
        (true, Some(WIRE_VERSION)) => {}
        (true, Some(other)) => {
            return Err(format!(
                "it is of version {other}, and this is {WIRE_VERSION}: coordinator and workers must be of the same build"
            ));
        }
        _ => return Err(format!("it is no worker of datafusion-vcz, but '{text}'")),
    }
    let partitions = words.find_map(|word| word.strip_prefix("partitions=")?.parse().ok());
    partitions.ok_or_else(|| "it does not say how many partitions it runs".to_string())
}

/// The URL of `HOST:PORT`.
fn url(scheme: &str, place: &str) -> Result<Url> {
    let url = Url::parse(&format!("{scheme}://{place}"));
    let has_port = place
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match url {
        // The default ports of the schemes are left out of URLs.
        Ok(url) if has_port && url.path() == "/" && url.has_host() => Ok(url),
        _ => {
            config_err!("'{place}' is not a worker: expected HOST:PORT, dns:HOST:PORT or file:PATH")
        }
    }
}

/// Whether a worker is on this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(parse_version(&version(16)), Ok(16));
        let other = parse_version("datafusion-vcz 9.9.9/7 partitions=4").unwrap_err();
        assert!(other.contains("9.9.9/7") && other.contains(WIRE_VERSION));
        assert!(parse_version("").unwrap_err().contains("no worker"));
    }

    #[test]
    fn places() {
        assert_eq!(shown(&url("https", "a.b:50051").unwrap()), "a.b:50051");
        assert_eq!(shown(&url("http", "[::1]:7").unwrap()), "[::1]:7");
        assert_eq!(shown(&url("https", "host:443").unwrap()), "host:443");
        assert!(is_loopback(&url("http", "127.0.0.1:7").unwrap()));
        assert!(!is_loopback(&url("http", "10.0.0.1:7").unwrap()));
        for wrong in ["", "host", "host:x", "host:1/path", "http://host:1"] {
            assert!(url("http", wrong).is_err(), "{wrong}");
        }
    }
}
