//! The methods of MCP.
//!
//! One table covers all revisions and both directions. Any other method is [`Method::Other`] and is forwarded like the
//! known ones.

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A JSON-RPC method of MCP.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`")] $(#[$doc])* $variant,)*
            /// A method that is not in the table.
            Other,
            /// No method: a response.
            None,
        }

        impl Method {
            /// All methods of the table.
            pub const KNOWN: &'static [Method] = &[$(Method::$variant,)*];

            /// Returns the name on the wire; `None` for [`Method::Other`] and [`Method::None`].
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Method::$variant => Some($name),)*
                    Method::Other | Method::None => None,
                }
            }

            /// Returns the method of this name.
            pub fn from_name(name: &str) -> Method {
                Method::from_bytes(name.as_bytes())
            }

            /// Returns the method of this name, without a check for UTF-8.
            pub(crate) fn from_bytes(name: &[u8]) -> Method {
                match name {
                    $(_ if name == $name.as_bytes() => Method::$variant,)*
                    _ => Method::Other,
                }
            }
        }
    };
}

// The most frequent methods come first, because the lookup is linear.
methods! {
    ToolsCall = "tools/call",
    Progress = "notifications/progress",
    MessageNotice = "notifications/message",
    ToolsList = "tools/list",
    Ping = "ping",
    ResourcesRead = "resources/read",
    Initialize = "initialize",
    Initialized = "notifications/initialized",
    /// (2026-07-28)
    Discover = "server/discover",
    PromptsList = "prompts/list",
    PromptsGet = "prompts/get",
    ResourcesList = "resources/list",
    ResourcesTemplatesList = "resources/templates/list",
    ResourcesSubscribe = "resources/subscribe",
    ResourcesUnsubscribe = "resources/unsubscribe",
    CompletionComplete = "completion/complete",
    LoggingSetLevel = "logging/setLevel",
    /// (2026-07-28)
    SubscriptionsListen = "subscriptions/listen",
    TasksGet = "tasks/get",
    /// (2025-11-25)
    TasksList = "tasks/list",
    /// (2025-11-25)
    TasksResult = "tasks/result",
    TasksCancel = "tasks/cancel",
    TasksUpdate = "tasks/update",
    SamplingCreateMessage = "sampling/createMessage",
    ElicitationCreate = "elicitation/create",
    RootsList = "roots/list",
    Cancelled = "notifications/cancelled",
    RootsListChanged = "notifications/roots/list_changed",
    ToolsListChanged = "notifications/tools/list_changed",
    PromptsListChanged = "notifications/prompts/list_changed",
    ResourcesListChanged = "notifications/resources/list_changed",
    ResourcesUpdated = "notifications/resources/updated",
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_method_is_found_by_name() {
        for &method in Method::KNOWN {
            assert_eq!(Method::from_name(method.name().unwrap()), method);
        }
        assert_eq!(Method::KNOWN.len(), 33);
    }

    #[test]
    fn similar_name_is_another_method() {
        for name in ["", "Tools/call", "tools/call ", "tools/callx", "tools", "x/y"] {
            assert_eq!(Method::from_name(name), Method::Other, "{name:?}");
        }
        assert_eq!(Method::Other.name(), None);
        assert_eq!(Method::None.name(), None);
    }
}
