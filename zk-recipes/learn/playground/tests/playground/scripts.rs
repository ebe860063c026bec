//! What is no script, or too much of one, is refused with an error that says so.

use zk_playground::{Code, LIMITS, Script, play};

/// A script with these members in place of the usual ones.
fn script(change: impl FnOnce(&mut serde_json::Value)) -> Result<Script, Code> {
    let mut json = serde_json::json!({
        "seed": 1,
        "lock": "exclusive",
        "contenders": [{"name": "Ana"}, {"name": "Ben", "mode": "write"}],
        "actions": [{"at_ms": 100, "who": "Ana", "do": "acquire"}],
        "until_ms": 1000,
    });
    change(&mut json);
    Script::from_json(json.to_string().as_bytes()).map_err(|error| error.code)
}

/// Checks that a changed script is refused, and which action is named.
fn check(code: Code, action: Option<usize>, change: impl FnOnce(&mut serde_json::Value)) {
    let error = match script(change) {
        Ok(script) => play(&script).unwrap_err(),
        Err(refused) => {
            assert_eq!((refused, None), (code, action));
            return;
        }
    };
    assert_eq!((error.code, error.action), (code, action), "{error}");
    assert!(!error.text.is_empty());
}

#[test]
fn a_whole_script_is_played() {
    let scene = play(&script(|_| ()).unwrap()).unwrap();
    assert_eq!(scene.ended_us, 1_000_000);
    assert_eq!(scene.lanes.len(), 3);
}

#[test]
fn what_is_no_script_is_refused() {
    for bytes in [&b""[..], b"{", b"[]", b"{\"seed\": 1}", b"\xff"] {
        assert_eq!(Script::from_json(bytes).unwrap_err().code, Code::Syntax);
    }
    check(Code::Syntax, None, |json| json["more"] = 1.into());
    check(Code::Syntax, None, |json| json["actions"][0]["do"] = "dance".into());
    check(Code::Syntax, None, |json| json["seed"] = (-1).into());
    let long = vec![b' '; LIMITS.body_bytes + 1];
    assert_eq!(Script::from_json(&long).unwrap_err().code, Code::TooLarge);
}

#[test]
fn contenders_have_bounds() {
    let bad = Code::BadContenders;
    check(bad, None, |json| json["contenders"] = serde_json::json!([]));
    let many = |count: usize| {
        let names = (0..count).map(|index| serde_json::json!({"name": format!("A{index}")}));
        names.collect::<Vec<_>>().into()
    };
    check(bad, None, |json| json["contenders"] = many(LIMITS.contenders + 1));
    for name in ["", "server", "Ben", "a b", "<b>", "Annabellissima", "Änne"] {
        check(bad, None, |json| json["contenders"][0]["name"] = name.into());
    }
    check(bad, None, |json| json["contenders"][0]["mode"] = "read".into());
}

#[test]
fn a_task_is_one_of_a_process_before_it_and_of_a_lock_that_has_tasks() {
    let with_tasks = |json: &mut serde_json::Value| {
        json["lock"] = "reentrant".into();
        json["contenders"] = serde_json::json!([
            {"name": "Ana"}, {"name": "Ana2", "with": "Ana"}, {"name": "Ben"},
        ]);
    };
    play(&script(with_tasks).unwrap()).unwrap();
    for (name, with) in [("Ana2", "Ben"), ("Ana2", "Ana2"), ("Ana2", "Zoe"), ("Ben", "Ana2")] {
        check(Code::BadContenders, None, |json| {
            with_tasks(json);
            let contenders = json["contenders"].as_array_mut().unwrap();
            let one = contenders.iter_mut().find(|one| one["name"] == name).unwrap();
            one["with"] = with.into();
        });
    }
    check(Code::BadContenders, None, |json| {
        with_tasks(json);
        json["lock"] = "exclusive".into();
    });
}

#[test]
fn actions_have_bounds() {
    check(Code::UnknownLock, None, |json| json["lock"] = "padlock".into());
    check(Code::BadTime, None, |json| json["until_ms"] = (LIMITS.until_ms + 1).into());
    check(Code::BadTime, Some(0), |json| json["actions"][0]["at_ms"] = 1001.into());
    check(Code::UnknownContender, Some(0), |json| json["actions"][0]["who"] = "Zoe".into());
    check(Code::BadAction, Some(0), |json| json["actions"][0]["ms"] = 5.into());
    check(Code::BadAction, Some(0), |json| json["actions"][0]["do"] = "delay".into());
    check(Code::BadAction, Some(0), |json| {
        json["actions"][0]["do"] = "delay".into();
        json["actions"][0]["ms"] = (LIMITS.delay_ms + 1).into();
    });
    check(Code::BadAction, Some(0), |json| {
        json["lock"] = "no_fence".into();
        json["actions"][0]["do"] = "write".into();
    });
    check(Code::TooManyActions, None, |json| {
        let one = json["actions"][0].clone();
        json["actions"] = vec![one; LIMITS.actions + 1].into();
    });
}

#[test]
fn the_longest_script_ends_with_a_bounded_scene() {
    let script = script(|json| {
        json["until_ms"] = LIMITS.until_ms.into();
        let names = (0..LIMITS.contenders).map(|index| format!("A{index}")).collect::<Vec<_>>();
        let contenders = names.iter().map(|name| serde_json::json!({"name": name}));
        json["contenders"] = contenders.collect::<Vec<_>>().into();
        let actions = (0..LIMITS.actions).map(|index| {
            let what = if index / names.len() % 2 == 0 { "acquire" } else { "release" };
            let who = &names[index % names.len()];
            serde_json::json!({"at_ms": 100 + index, "who": who, "do": what})
        });
        json["actions"] = actions.collect::<Vec<_>>().into();
    });
    let scene = play(&script.unwrap()).unwrap();
    assert!(scene.events.len() <= 4000, "{}", scene.events.len());
    let bytes = serde_json::to_string(&scene).unwrap().len();
    assert!(bytes < 8_000_000, "{bytes}");
}
