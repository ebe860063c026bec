//! Who is green and who is red at every moment of every scene, by who owns the node.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::stage::Stage;

/// The tree and the clients after each event.
fn states(scene: &Value) -> Vec<(Value, BTreeMap<String, Value>)> {
    let (mut tree, mut clients) = (json!([]), BTreeMap::new());
    let states = scene["states"].as_array().unwrap().iter().map(|state| {
        if !state["tree"].is_null() {
            tree = state["tree"].clone();
        }
        for client in state["clients"].as_array().into_iter().flatten() {
            clients.insert(client["who"].as_str().unwrap().to_owned(), client.clone());
        }
        (tree.clone(), clients.clone())
    });
    states.collect()
}

/// True if the node of a client has the lock: nobody is ahead of it whom it has to wait for.
fn owns(scene: &Value, tree: &Value, client: &Value) -> bool {
    let nodes = tree.as_array().unwrap();
    let Some(own) = nodes.iter().find(|node| node["path"] == client["node"]) else {
        return false;
    };
    let contenders = scene["script"]["contenders"].as_array().unwrap();
    let reads =
        |owner: &Value| contenders.iter().any(|one| one["name"] == *owner && one["mode"] == "read");
    !nodes.iter().any(|node| {
        let is_queued = node["path"].as_str().unwrap().starts_with("/lock/");
        is_queued
            && node["owner"] != own["owner"]
            && node["sequence"].as_u64() < own["sequence"].as_u64()
            && !(reads(&node["owner"]) && reads(&own["owner"]))
    })
}

/// Who takes the lock for its own is green if it is, and red if not. `seen` has for the begin, each
/// step and the end the number of the event that is current, or null, and the class of each card.
/// Returns how many were green, and how many red.
pub(crate) fn who_is_green_owns_the_lock(scene: &Value, seen: &[Value]) -> (u32, u32) {
    let (mut green, mut red) = (0, 0);
    let states = states(scene);
    for (step, moment) in seen.iter().enumerate() {
        let is_end = step + 1 == seen.len();
        let current = moment[0].as_u64().map(|index| index as usize);
        // At the end all has happened, also what is not shown.
        let index = if is_end { states.len() - 1 } else { current.unwrap_or_default() };
        let at_us = match is_end {
            true => scene["ended_us"].as_u64(),
            false => current.and_then(|index| scene["events"][index]["at_us"].as_u64()),
        };
        let (tree, clients) = &states[index];
        for card in moment[1].as_array().unwrap() {
            let (name, class) = (card[0].as_str().unwrap(), card[1].as_str().unwrap());
            let client = &clients[name];
            if client["lock"] != "held" && client["lock"] != "maybe" {
                continue;
            }
            let lease = client["lease_until_us"].as_u64();
            let is_over = lease.is_some_and(|until| until <= at_us.unwrap_or_default());
            let is_right = owns(scene, tree, client) && !is_over;
            let what = format!("{}, step {step}: {name} is {class:?}", scene["id"]);
            assert_eq!(class.contains("lock-lost"), !is_right, "{what}");
            green += u32::from(is_right);
            red += u32::from(!is_right);
        }
    }
    (green, red)
}

#[test]
fn the_texts_that_decide_are_shown_whole() {
    let mut stage = Stage::open("#no_fence");
    stage.browser.emulate(1280, 800, &[]);
    stage.click("#last");
    let labels = stage.browser.evaluate(
        "[...document.querySelectorAll('#lanes .event.note text')].map((text) => text.textContent)",
    );
    for label in [
        "is first in the queue: reads the balance, 100, and works for 5 s",
        "takes 30: written. Balance: 70",
        "takes 20: written. Balance: 80",
    ] {
        assert!(labels.as_array().unwrap().contains(&json!(label)), "{label}: {labels}");
    }
    stage.end();
}
