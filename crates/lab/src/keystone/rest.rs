//! Keystone's HTTP API, version 3, as far as tests need it to set up a cloud. All requests are made as `admin`.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Keystone, setup};

impl Keystone {
    /// Creates a project in the domain `Default`; returns its id.
    pub fn project(&self, name: &str) -> Result<String> {
        self.make("projects", "project", json!({ "name": name, "domain_id": "default" }))
    }

    /// Creates a user in the domain `Default`; returns its id.
    pub fn user(&self, name: &str, password: &str) -> Result<String> {
        self.make("users", "user", json!({ "name": name, "password": password, "domain_id": "default" }))
    }

    /// A role by its name, created if it is missing; returns its id. `admin`, `manager`, `member`, `reader` and `service`
    /// exist.
    pub fn role(&self, name: &str) -> Result<String> {
        let found = self.call("GET", &format!("roles?name={name}"), None)?;
        match found["roles"][0]["id"].as_str() {
            Some(id) => Ok(id.to_owned()),
            None => self.make("roles", "role", json!({ "name": name })),
        }
    }

    /// Grants a user a role (by its name) on a project.
    pub fn grant(&self, role: &str, user: &str, project: &str) -> Result<()> {
        let role = self.role(role)?;
        self.call("PUT", &format!("projects/{project}/users/{user}/roles/{role}"), None).map(|_| ())
    }

    /// Grants a user a role (by its name) on the domain `Default`.
    pub fn grant_on_domain(&self, role: &str, user: &str) -> Result<()> {
        let role = self.role(role)?;
        self.call("PUT", &format!("domains/default/users/{user}/roles/{role}"), None).map(|_| ())
    }

    /// Grants a user a role (by its name) on the whole system.
    pub fn grant_on_system(&self, role: &str, user: &str) -> Result<()> {
        let role = self.role(role)?;
        self.call("PUT", &format!("system/users/{user}/roles/{role}"), None).map(|_| ())
    }

    /// Creates a service of a type (`network`, `load-balancer`) and a name; returns its id.
    pub fn service(&self, kind: &str, name: &str) -> Result<String> {
        self.make("services", "service", json!({ "type": kind, "name": name }))
    }

    /// Creates an endpoint of a service for an interface (`public`, `internal`, `admin`); returns its id.
    pub fn endpoint(&self, service: &str, interface: &str, url: &str) -> Result<String> {
        let endpoint = json!({
            "service_id": service,
            "interface": interface,
            "url": url,
            "region_id": setup::REGION,
        });
        self.make("endpoints", "endpoint", endpoint)
    }

    /// A token of a user for a project, both by their names.
    pub fn token(&self, user: &str, password: &str, project: &str) -> Result<String> {
        let scope = json!({ "project": { "name": project, "domain": { "id": "default" } } });
        self.authenticate(user, password, &scope)
    }

    /// A token of `admin` for the project `admin`.
    pub fn admin_token(&self) -> Result<String> {
        self.token("admin", setup::ADMIN_PASSWORD, "admin")
    }

    /// A token of a user for the domain `Default`.
    pub fn domain_token(&self, user: &str, password: &str) -> Result<String> {
        self.authenticate(user, password, &json!({ "domain": { "id": "default" } }))
    }

    /// A token of a user for the system as a whole.
    pub fn system_token(&self, user: &str, password: &str) -> Result<String> {
        self.authenticate(user, password, &json!({ "system": { "all": true } }))
    }

    fn authenticate(&self, user: &str, password: &str, scope: &Value) -> Result<String> {
        let domain = json!({ "id": "default" });
        let who = json!({ "user": { "name": user, "password": password, "domain": domain } });
        let identity = json!({ "methods": ["password"], "password": who });
        let body = json!({ "auth": { "identity": identity, "scope": scope } });
        let (token, _) = self
            .send("POST", "auth/tokens", None, Some(&body))
            .with_context(|| format!("Keystone gives {user} no token"))?;
        token.context("Keystone's answer has no token")
    }

    /// Keystone's description of a token; an error if the token is not, or no longer, valid.
    pub fn about(&self, token: &str) -> Result<Value> {
        self.of_token("GET", token)
    }

    /// Revokes a token.
    pub fn revoke(&self, token: &str) -> Result<()> {
        self.of_token("DELETE", token).map(|_| ())
    }

    fn of_token(&self, method: &str, token: &str) -> Result<Value> {
        let headers = [("X-Auth-Token", self.own_token()?), ("X-Subject-Token", token)];
        self.request(method, "auth/tokens", &headers, None).map(|(_, answer)| answer)
    }

    /// Sends any other request as `admin`: a method, a path after `/v3/`, a body.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let token = self.own_token()?;
        self.send(method, path, Some(token), body).map(|(_, answer)| answer)
    }

    fn own_token(&self) -> Result<&str> {
        if let Some(token) = self.token.get() {
            return Ok(token);
        }
        let token = self.admin_token()?;
        Ok(self.token.get_or_init(|| token))
    }

    fn make(&self, path: &str, what: &str, value: Value) -> Result<String> {
        let mut body = json!({});
        body[what] = value;
        let answer = self.call("POST", path, Some(&body))?;
        let id = answer[what]["id"].as_str();
        id.map(|id| id.to_owned()).with_context(|| format!("Keystone's answer has no id: {answer}"))
    }

    /// Writes this Keystone's address to its catalog: the template was prepared for another address.
    pub(super) fn move_identity(&self) -> Result<()> {
        let listed = self.call("GET", "endpoints", None)?;
        for endpoint in listed["endpoints"].as_array().into_iter().flatten() {
            let id = endpoint["id"].as_str().context("an endpoint without an id")?;
            let body = json!({ "endpoint": { "url": self.url } });
            self.call("PATCH", &format!("endpoints/{id}"), Some(&body))?;
        }
        Ok(())
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<(Option<String>, Value)> {
        let headers: Vec<(&str, &str)> = token.map(|token| ("X-Auth-Token", token)).into_iter().collect();
        self.request(method, path, &headers, body)
    }

    /// Sends one request from this Keystone's namespace; returns the token in the answer's head, if any, and its body.
    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<(Option<String>, Value)> {
        let ask = || -> Result<(Option<String>, Value)> {
            let mut request = ureq::http::Request::builder()
                .method(method)
                .uri(format!("{}/{path}", self.url))
                .header("Content-Type", "application/json");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let text = body.map(|body| body.to_string()).unwrap_or_default();
            let mut answer = self.agent.run(request.body(text)?)?;
            let token = answer.headers().get("X-Subject-Token").and_then(|token| token.to_str().ok());
            let (token, status) = (token.map(|token| token.to_owned()), answer.status());
            let text = answer.body_mut().read_to_string()?;
            if !status.is_success() {
                bail!("Keystone said {status}: {}", text.trim());
            }
            let value = if text.trim().is_empty() { Value::Null } else { serde_json::from_str(&text)? };
            Ok((token, value))
        };
        let answered = match &self.netns {
            Some(netns) => netns.enter(ask)?,
            None => ask(),
        };
        answered.with_context(|| format!("cannot {method} {}/{path}", self.url))
    }
}
