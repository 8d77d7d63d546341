//! Authentication of every request but the login, before the service. An authenticated request gets its [`ClientSession`] as an
//! extension; any other is rejected here, whatever its method.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::transport::server::TlsConnectInfo;

use super::connections::{Peer, network};
use super::login::Logins;
use super::sessions::{ClientKey, ClientSession, Sessions};
use super::tokens::Tokens;

/// The only method that needs no authentication.
const LOGIN: &str = "/arrow.flight.protocol.FlightService/Handshake";
/// The name of every user on a server without a file of users.
const ANONYMOUS: &str = "anonymous";

/// Identifies the client of a request.
pub struct Identity {
    /// The logins; `None` accepts every client.
    pub logins: Option<Logins>,
    /// The tokens of users who logged in.
    pub tokens: Tokens,
    /// The clients' settings.
    pub sessions: Sessions,
    anonymous: Arc<str>,
}

impl Identity {
    /// Authenticates the users of `logins`; without it every client is accepted.
    pub fn new(logins: Option<Logins>, tokens: Tokens, sessions: Sessions) -> Self {
        Self {
            logins,
            tokens,
            sessions,
            anonymous: Arc::from(ANONYMOUS),
        }
    }

    /// The client with this `authorization` header, from this address.
    ///
    /// # Errors
    /// UNAUTHENTICATED, if it must log in first, or its token is unknown, forged or expired.
    pub fn client(
        &self,
        authorization: Option<&str>,
        address: Option<SocketAddr>,
    ) -> Result<Arc<ClientSession>, Status> {
        let Some(logins) = &self.logins else {
            let key = ClientKey::Connection(Arc::clone(&self.anonymous), address);
            let share = address.map_or(Arc::clone(&self.anonymous), |address| {
                Arc::from(network(address.ip()).to_string())
            });
            return Ok(self.sessions.get(key, &self.anonymous, &share));
        };
        let token = match authorization.and_then(|header| header.split_once(' ')) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => {
                return Err(Status::unauthenticated(
                    "log in first: a user name and a password, or a bearer token",
                ));
            }
        };
        if let Some((user, id)) = self.tokens.check(token) {
            return Ok(self.sessions.get(ClientKey::Token(id), &user, &user));
        }
        match logins.users().token(token) {
            Some(user) => {
                let key = ClientKey::Connection(Arc::clone(&user), address);
                Ok(self.sessions.get(key, &user, &user))
            }
            None => Err(Status::unauthenticated(
                "the token is invalid or has expired; log in again",
            )),
        }
    }
}

/// A service that authenticates requests first.
#[derive(Clone)]
pub struct Gate<S> {
    inner: S,
    identity: Arc<Identity>,
}

impl<S> Gate<S> {
    /// Authenticates requests to `inner`.
    pub fn new(inner: S, identity: Arc<Identity>) -> Self {
        Self { inner, identity }
    }
}

impl<S: NamedService> NamedService for Gate<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let peer = peer(request.extensions()).cloned();
        if request.uri().path() != LOGIN {
            let authorization = request
                .headers()
                .get(http::header::AUTHORIZATION)
                .and_then(|header| header.to_str().ok());
            let address = peer.as_ref().map(|peer| peer.address);
            match self.identity.client(authorization, address) {
                Ok(session) => {
                    if let Some(peer) = &peer {
                        peer.connection.known();
                    }
                    request.extensions_mut().insert(session);
                }
                Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
            }
        }
        // The request is active until the last byte of the response is sent.
        let active = peer.map(|peer| peer.connection.request());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _active = &active;
                    frame
                }))
            }))
        })
    }
}

/// The address and the connection of a request's client.
pub fn peer(extensions: &http::Extensions) -> Option<&Peer> {
    let tls = extensions.get::<TlsConnectInfo<Peer>>();
    extensions
        .get::<Peer>()
        .or_else(|| tls.map(TlsConnectInfo::get_ref))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::prelude::SessionConfig;
    use tonic::Code;

    use super::*;
    use crate::flight::auth::{Users, password_line};

    #[test]
    fn who_is_let_in() {
        let static_token = "0123456789abcdef0123456789abcdef";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        let line = password_line("ada", "secret").unwrap();
        std::fs::write(&file, format!("{line}\ntoken pipeline {static_token}\n")).unwrap();
        let users = Arc::new(Users::read(&file).unwrap());
        let identity = Identity::new(
            Some(Logins::new(users)),
            Tokens::new(Duration::from_secs(60)),
            Sessions::new(SessionConfig::new()),
        );
        let issued = identity.tokens.issue(&Arc::from("ada")).unwrap();
        let user = |header: &str| {
            identity
                .client(Some(header), None)
                .map(|session| session.user.to_string())
        };
        assert_eq!(user(&format!("Bearer {issued}")).unwrap(), "ada");
        assert_eq!(user(&format!("bearer {static_token}")).unwrap(), "pipeline");
        for bad in [
            "",
            "Bearer",
            "Bearer x",
            "Basic YWRhOnNlY3JldA==",
            &format!("Bearer {}", &issued[1..]),
            &format!("Bearer {}", "0".repeat(96)),
        ] {
            assert_eq!(
                user(bad).unwrap_err().code(),
                Code::Unauthenticated,
                "{bad}"
            );
        }
        assert!(identity.client(None, None).is_err());
    }

    #[test]
    fn without_users_a_connection_is_a_client() {
        let identity = Identity::new(
            None,
            Tokens::new(Duration::from_secs(60)),
            Sessions::new(SessionConfig::new()),
        );
        let address = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let one = identity.client(None, address(1)).unwrap();
        assert!(Arc::ptr_eq(
            &one,
            &identity.client(Some("Bearer x"), address(1)).unwrap()
        ));
        assert!(!Arc::ptr_eq(
            &one,
            &identity.client(None, address(2)).unwrap()
        ));
    }
}
