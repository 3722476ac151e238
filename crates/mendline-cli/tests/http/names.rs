//! Servers whose name or route is lost for a while: a call waits, fails with the reason at its deadline, and the next
//! call runs as soon as the server is reachable again.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mendline_faults::{Ending, Proxy, Rule};
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually, failure};
use crate::name_server::{NAME, NameServer, Reply};
use crate::namespace::{inside, ip};
use crate::reachability::close;
use crate::site::{Site, WAITING, initialized, json_answers, run};

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The second address of the server; all of 127.0.0.0/8 is local.
const THERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// A reserved address (RFC 5737) and its network.
const FAR: &str = "198.51.100.7";
const FAR_ADDRESS: &str = "198.51.100.7/32";
const FAR_NETWORK: &str = "198.51.100.0/24";

/// Several dials within a few seconds, but not so many that the dial limit delays the next one.
const OPTIONS: [&str; 6] = ["--connect-timeout", "400ms", "--initial-retry-delay", "400ms", "--max-retry-delay", "1s"];
/// Calls that are expected to fail have a deadline of three seconds. Other calls have the default.
const DEADLINE: [&str; 2] = ["--tool-timeout", "create_note=3s"];

/// Starts a client whose connections go through this proxy. The server has no GET stream, so that only calls cause
/// dials.
fn client_at(site: &Site, host: &str, proxy: &Proxy, deadline: &[&str]) -> Client {
    site.add_fault(Rule::new("h40_405_on_get"));
    let url = format!("http://{host}:{}/mcp", proxy.address().port());
    let mut client = initialized(&url, &[&OPTIONS[..], deadline].concat());
    site.until("the GET stream is requested", |counts| counts.gets == 1);
    // The answer to this call comes after that to the GET request.
    assert_eq!(client.result("first", "lookup", &json!({ "key": "first" }))["isError"], false);
    eventually("the answers have come", SOON, || proxy.counts().down.written == site.counts().bytes_out);
    client
}

/// Cuts every connection.
fn cut(proxy: &Proxy) {
    proxy.cut(Ending::Reset);
    eventually("no connection is left", SOON, || proxy.counts().open == 0);
}

/// Makes a call without a connection, and waits until its dial has failed.
fn call_without_connection(client: &mut Client) {
    client.call("a", "create_note", &json!({ "key": "k" }));
    eventually("the server is lost", SOON, || client.log().contains("Up → Waiting"));
}

/// Returns the failure text of a call that was not sent.
fn failure_text(result: &Value) -> &str {
    assert_eq!(failure(result)["outcome"], "not_sent", "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("did not run"), "{text}");
    text
}

/// Returns the number of failed dials.
fn failed_dials(client: &Client) -> usize {
    client.log().matches("Dialing → Waiting").count()
}

/// Each dial looks the name up once: one for the call, and one for each retry.
fn assert_one_lookup_per_dial(names: &NameServer, before: usize, client: &Client) {
    eventually("each dial looks the name up once", SOON, || names.lookups() - before == 1 + failed_dials(client));
    assert!(failed_dials(client) >= 2, "{}", client.log());
}

#[test]
fn n01_call_to_unknown_host_waits_and_fails() {
    inside("names::n01_call_to_unknown_host_waits_and_fails", || {
        let names = NameServer::start(Reply::Address(HERE));
        let site = Site::start(json_answers());
        let proxy = site.proxy();
        let mut client = client_at(&site, NAME, &proxy, &DEADLINE);
        names.set_reply(Reply::NoSuchName);
        cut(&proxy);
        let before = names.lookups();
        call_without_connection(&mut client);
        let result = client.answer("a")["result"].clone();
        assert!(failure_text(&result).contains("the name server.test could not be looked up ("), "{result}");
        assert_one_lookup_per_dial(&names, before, &client);
        client.call("b", "lookup", &json!({ "key": "l" }));
        names.set_reply(Reply::Address(HERE));
        assert_eq!(client.answer("b")["result"]["content"][0]["text"], "l is 42", "{}", client.log());
        assert_eq!((site.executions("k"), site.executions("l")), (0, 1));
    });
}

#[test]
fn n02_call_during_silent_dns_waits_and_fails() {
    inside("names::n02_call_during_silent_dns_waits_and_fails", || {
        let names = NameServer::start(Reply::Address(HERE));
        let site = Site::start(json_answers());
        let proxy = site.proxy();
        let mut client = client_at(&site, NAME, &proxy, &DEADLINE);
        names.set_reply(Reply::Nothing);
        cut(&proxy);
        let before = names.lookups();
        call_without_connection(&mut client);
        let result = client.answer("a")["result"].clone();
        let words = "the name server.test could not be looked up within 400 ms; is the name server there?";
        assert!(failure_text(&result).contains(words), "{result}");
        assert_one_lookup_per_dial(&names, before, &client);
        client.call("b", "lookup", &json!({ "key": "l" }));
        names.set_reply(Reply::Address(HERE));
        assert_eq!(client.answer("b")["result"]["content"][0]["text"], "l is 42", "{}", client.log());
        assert_eq!((site.executions("k"), site.executions("l")), (0, 1));
    });
}

#[test]
fn n02_lookup_failure_of_system_is_reported_verbatim() {
    inside("names::n02_lookup_failure_of_system_is_reported_verbatim", || {
        let _names = NameServer::start(Reply::Nothing);
        // The resolver takes one second for the name, and one for the name with the search domain.
        let options = [&WAITING[..], &["--call-timeout", "6s"]].concat();
        let mut client = run(&format!("http://{NAME}:1/mcp"), &options, &[]);
        client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
        let error = client.answer_within("init", Duration::from_secs(20))["error"].clone();
        assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
        let words = "the name server.test could not be looked up (";
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    });
}

#[test]
fn n03_calls_follow_dns_change_at_once() {
    inside("names::n03_calls_follow_dns_change_at_once", || {
        let names = NameServer::start(Reply::Address(HERE));
        let site = Site::start(json_answers());
        let here = site.proxy();
        let mut client = client_at(&site, NAME, &here, &[]);
        let there = site.proxy_on(SocketAddr::from((THERE, here.address().port())));
        close(&here);
        cut(&here);
        client.call("a", "create_note", &json!({ "key": "k" }));
        let unused = format!("nothing listens on {NAME}:{} ({HERE}:{0})", there.address().port());
        eventually("the old address is dialed", SOON, || client.log().contains(&unused));
        assert_eq!(there.counts().accepted, 0, "the new address is not known yet");
        names.set_reply(Reply::Address(THERE));
        assert_eq!(client.answer("a")["result"]["content"][0]["text"], "wrote k", "{}", client.log());
        let result = client.result("b", "create_note", &json!({ "key": "l" }));
        assert_eq!(result["content"][0]["text"], "wrote l", "{result}");
        assert_eq!((site.executions("k"), site.executions("l")), (1, 1));
        assert!(there.counts().accepted > 0);
    });
}

#[test]
fn n04_public_name_turned_private_gets_no_byte() {
    inside("names::n04_public_name_turned_private_gets_no_byte", || {
        ip(&["address", "add", FAR_ADDRESS, "dev", "lo"]);
        let names = NameServer::start(Reply::Address(FAR.parse().unwrap()));
        let site = Site::start(json_answers());
        let far = site.proxy_on(format!("{FAR}:0").parse().unwrap());
        let mut client = client_at(&site, NAME, &far, &DEADLINE);
        let here = site.proxy_on(SocketAddr::from((HERE, far.address().port())));
        names.set_reply(Reply::Address(HERE));
        cut(&far);
        let before = names.lookups();
        client.call("a", "create_note", &json!({ "key": "k" }));
        let result = client.answer("a")["result"].clone();
        let words = "the name server.test led to a public address before and now leads to 127.0.0.1, which is private";
        assert!(failure_text(&result).contains(words), "{result}");
        eventually("the log has it too", SOON, || client.log().contains(words));
        assert_eq!((here.counts().accepted, site.executions("k")), (0, 0));
        let looked_up = names.lookups() - before;
        assert!((1..=3).contains(&looked_up), "another look shows the same address: {looked_up}");
    });
}

#[test]
fn n04_link_local_address_is_reached_only_when_url_holds_it() {
    inside("names::n04_link_local_address_is_reached_only_when_url_holds_it", || {
        let metadata = Ipv4Addr::new(169, 254, 169, 254);
        ip(&["address", "add", &format!("{metadata}/32"), "dev", "lo"]);
        let _names = NameServer::start(Reply::Address(metadata));
        let site = Site::start(json_answers());
        let there = site.proxy_on(SocketAddr::from((metadata, 0)));
        let port = there.address().port();
        let mut client = run(&format!("http://{NAME}:{port}/mcp"), &["--call-timeout", "3s"], &[]);
        client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
        let words = "the name server.test leads to 169.254.169.254, a link-local address";
        let error = client.answer("init")["error"].clone();
        assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(there.counts().accepted, 0);
        initialized(&format!("http://{metadata}:{port}/mcp"), &[]);
    });
}

#[test]
fn n07_call_without_route_waits_and_fails() {
    inside("names::n07_call_without_route_waits_and_fails", || {
        ip(&["route", "add", "unreachable", FAR_NETWORK]);
        // A local address has precedence over every route.
        ip(&["address", "add", FAR_ADDRESS, "dev", "lo"]);
        let site = Site::start(json_answers());
        let far = site.proxy_on(format!("{FAR}:0").parse().unwrap());
        let address = far.address();
        let mut client = client_at(&site, FAR, &far, &DEADLINE);
        close(&far);
        cut(&far);
        ip(&["address", "delete", FAR_ADDRESS, "dev", "lo"]);
        call_without_connection(&mut client);
        let result = client.answer("a")["result"].clone();
        assert!(
            failure_text(&result).contains(&format!("there is no route to {address} (No route to host")),
            "{result}"
        );
        client.call("b", "lookup", &json!({ "key": "l" }));
        let before = failed_dials(&client);
        eventually("the dial fails", SOON, || failed_dials(&client) > before);
        ip(&["address", "add", FAR_ADDRESS, "dev", "lo"]);
        far.clear();
        assert_eq!(client.answer("b")["result"]["content"][0]["text"], "l is 42", "{}", client.log());
        assert_eq!((site.executions("k"), site.executions("l")), (0, 1));
    });
}
