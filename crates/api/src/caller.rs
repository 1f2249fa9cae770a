//! The caller of a request: project and roles, from its credentials.

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The project of the credentials; empty if they have no project scope.
    pub project: String,
    /// The user id, for logs.
    pub user: String,
    /// May do everything, in every project.
    pub admin: bool,
    /// May choose more than members in its project, such as the address of a floating IP.
    pub manager: bool,
    /// May read and write in its project.
    pub member: bool,
    /// May read in its project.
    pub reader: bool,
    /// Is another OpenStack service: may set bindings and the like, in every project.
    pub service: bool,
    /// May read in every project.
    pub auditor: bool,
    /// Octavia's own roles, which count only if the operator chose `BalancerRoleSet::Own`.
    pub balancer: BalancerRoles,
}

/// Octavia's roles from before Keystone's general ones: `load-balancer_admin` and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalancerRoles {
    /// May do everything, in every project.
    pub admin: bool,
    /// May read and write in its project.
    pub member: bool,
    /// May read in its project.
    pub observer: bool,
    /// May read in every project.
    pub global_observer: bool,
    /// May set quotas.
    pub quota_admin: bool,
}

/// The roles that permit requests on load balancers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalancerRoleSet {
    /// Keystone's general roles: admin, member, reader.
    #[default]
    General,
    /// [`BalancerRoles`], and `admin`.
    Own,
}

impl Caller {
    /// An administrator in `project` who is also a service, for set-ups without other services.
    pub fn admin(project: impl Into<String>) -> Self {
        Caller { admin: true, manager: true, service: true, ..Self::member(project) }
    }

    /// A member of `project`.
    pub fn member(project: impl Into<String>) -> Self {
        let project = project.into();
        Caller {
            project,
            user: String::new(),
            admin: false,
            manager: false,
            member: true,
            reader: true,
            service: false,
            auditor: false,
            balancer: BalancerRoles::default(),
        }
    }

    /// A caller who may only read in `project`.
    pub fn reader(project: impl Into<String>) -> Self {
        Caller { member: false, ..Self::member(project) }
    }

    /// Whether an object of `project` is the caller's own.
    pub fn owns(&self, project: &str) -> bool {
        !project.is_empty() && self.project == project
    }

    /// The caller with the roles that count in the load-balancer API.
    pub fn of_load_balancers(self, roles: BalancerRoleSet) -> Self {
        let own = self.balancer;
        match roles {
            BalancerRoleSet::General => Caller { balancer: BalancerRoles::default(), ..self },
            BalancerRoleSet::Own => Caller {
                admin: self.admin || own.admin,
                manager: false,
                member: own.member,
                reader: own.member || own.observer,
                auditor: own.global_observer,
                balancer: BalancerRoles { quota_admin: own.quota_admin, ..BalancerRoles::default() },
                ..self
            },
        }
    }

    /// Whether the caller may read and set quotas of any project. Applies to the result of [`of_load_balancers`](Self::of_load_balancers).
    pub fn sets_balancer_quotas(&self) -> bool {
        self.admin || self.balancer.quota_admin
    }

    /// Whether the caller may see objects of `project`.
    pub fn sees_project(&self, project: &str) -> bool {
        self.admin || self.service || self.auditor || ((self.reader || self.member) && self.owns(project))
    }

    /// Whether the caller may create, change and delete objects of `project`.
    pub fn changes_project(&self, project: &str) -> bool {
        self.admin || (self.member && self.owns(project))
    }
}
