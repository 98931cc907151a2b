//! Access rules over sessions. Replies of a real Redis are compared in `tests/access.rs`.

use super::super::tests::Talk;

fn talk(lines: &[&str]) -> Talk {
    let mut talk = Talk::new();
    let mut admin = talk.client(1);
    for line in lines {
        assert_eq!(talk.say(&mut admin, line), "+OK|", "{line}");
    }
    talk
}

#[test]
fn what_a_user_may_not_do_is_refused_and_noted() {
    let mut talk = talk(&["ACL SETUSER alice on >secret ~a:* +@read +set +acl|whoami", "SET a:1 x", "SET b x"]);
    let (mut admin, mut alice) = (talk.client(1), talk.client(2));
    for (line, reply) in [
        ("AUTH alice wrong", "-WRONGPASS invalid username-password pair or user is disabled.|"),
        ("AUTH alice secret", "+OK|"),
        ("ACL WHOAMI", "$5|alice|"),
        ("GET a:1", "$1|x|"),
        ("GET b", "-NOPERM this user has no permissions to access one of the keys used as arguments|"),
        ("MGET a:1 b", "-NOPERM this user has no permissions to access one of the keys used as arguments|"),
        ("DEL a:1", "-NOPERM this user has no permissions to run the 'del' command|"),
        ("ACL LIST", "-NOPERM this user has no permissions to run the 'acl|list' command|"),
        (
            "AUTH alice",
            "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is \
                        correct?|",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command|"),
        ("ACL LIST x", "-ERR wrong number of arguments for 'acl|list' command|"),
    ] {
        assert_eq!(talk.say(&mut alice, line), reply, "{line}");
    }
    let log = talk.say(&mut admin, "ACL LOG");
    let part = |reason: &str, object: &str| {
        format!("$6|reason|${}|{reason}|$7|context|$8|toplevel|$6|object|${}|{object}|", reason.len(), object.len())
    };
    for (reason, object) in [("auth", "AUTH"), ("key", "b"), ("command", "del"), ("command", "acl|list")] {
        assert!(log.contains(&part(reason, object)), "{log}");
    }
    assert!(log.contains("user=alice"), "{log}");
    assert_eq!(talk.server.statistics.refused_requests, [1, 2, 2, 0]);
    assert_eq!(talk.say(&mut admin, "ACL LOG RESET"), "+OK|");
    assert_eq!(talk.say(&mut admin, "ACL LOG"), "*0|");
}

#[test]
fn transactions_are_checked_twice() {
    let mut talk = talk(&["ACL SETUSER alice on nopass ~* +@all"]);
    let (mut admin, mut alice) = (talk.client(1), talk.client(2));
    for line in ["AUTH alice x", "MULTI", "SET a 1", "DEL a", "GET a"] {
        talk.say(&mut alice, line);
    }
    talk.say(&mut admin, "ACL SETUSER alice -del resetkeys ~b");
    let refused = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no \
                   longer allowed for the following reason: ";
    let (key, command) = ("no permission to touch the specified keys", "no permission to execute the command or subcommand");
    assert_eq!(talk.say(&mut alice, "EXEC"), format!("*3|{refused}{key}|{refused}{command}|{refused}{key}|"));
    assert!(talk.say(&mut admin, "ACL LOG").contains("$7|context|$5|multi|"));
    for (line, reply) in [
        ("MULTI", "+OK|"),
        ("SET b 1", "+QUEUED|"),
        ("DEL b", "-NOPERM this user has no permissions to run the 'del' command|"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
    ] {
        assert_eq!(talk.say(&mut alice, line), reply, "{line}");
    }
}

#[test]
fn who_is_gone_may_do_nothing() {
    let mut talk = talk(&["ACL SETUSER alice on nopass ~* +@all"]);
    let (mut admin, mut alice) = (talk.client(1), talk.client(2));
    talk.say(&mut alice, "AUTH alice x");
    assert_eq!(talk.say(&mut admin, "ACL DELUSER alice nobody"), ":1|");
    assert_eq!(talk.server.killed, [2]);
    assert_eq!(talk.say(&mut alice, "GET a"), "-NOPERM this user has no permissions to run the 'get' command|");
    // A new user of the same name is another user.
    talk.say(&mut admin, "ACL SETUSER alice on nopass ~* +@all");
    assert_eq!(talk.say(&mut alice, "GET a"), "-NOPERM this user has no permissions to run the 'get' command|");
    assert_eq!(talk.say(&mut admin, "ACL DELUSER default"), "-ERR The 'default' user cannot be removed|");
    // A client that deletes its own user still gets the reply.
    let mut bob = talk.client(3);
    talk.say(&mut bob, "AUTH alice x");
    assert_eq!(talk.say(&mut bob, "ACL DELUSER alice"), ":1|");
    assert!(bob.closes);
}

#[test]
fn the_default_user_is_everybody() {
    let mut talk = Talk::new();
    let mut early = talk.client(1);
    assert_eq!(talk.say(&mut early, "CONFIG SET requirepass secret"), "+OK|");
    // A client connected before the change stays authenticated; a new one has to authenticate.
    assert_eq!(talk.say(&mut early, "PING"), "+PONG|");
    let mut late = talk.client(2);
    assert_eq!(talk.say(&mut late, "PING"), "-NOAUTH Authentication required.|");
    assert_eq!(talk.say(&mut late, "AUTH secret"), "+OK|");
    assert_eq!(talk.say(&mut late, "ACL SETUSER default nopass"), "+OK|");
    assert_eq!(talk.say(&mut early, "CONFIG GET requirepass"), "*2|$11|requirepass|$6|secret|");
    let mut later = talk.client(3);
    assert_eq!(talk.say(&mut later, "PING"), "+PONG|");
    talk.say(&mut early, "ACL SETUSER default off");
    let mut last = talk.client(4);
    assert_eq!(talk.say(&mut last, "PING"), "-NOAUTH Authentication required.|");
    assert_eq!(talk.say(&mut last, "AUTH default x"), "-WRONGPASS invalid username-password pair or user is disabled.|");
}

#[test]
fn users_are_changed_whole_or_not_at_all() {
    let mut talk = talk(&["ACL SETUSER alice on >x +get"]);
    let mut admin = talk.client(1);
    let before = talk.say(&mut admin, "ACL GETUSER alice");
    for (line, reply) in [
        ("ACL SETUSER alice +set +nosuch", "-ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL|"),
        ("ACL SETUSER alice (+set ~a", "-ERR Unmatched parenthesis in acl selector starting at '(+set'.|"),
        ("ACL SETUSER alice nonsense", "-ERR Error in ACL SETUSER modifier 'nonsense': Syntax error|"),
        ("ACL GETUSER nobody", "$-1|"),
        ("ACL GENPASS 4097", "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096|"),
        ("ACL CAT nosuch", "-ERR Unknown category 'nosuch'|"),
        ("ACL DRYRUN nobody GET a", "-ERR User 'nobody' not found|"),
        ("ACL DRYRUN alice nosuch", "-ERR Command 'nosuch' not found|"),
        ("ACL DRYRUN alice get a", "$58|This user has no permissions to access the 'a' key|"),
        ("ACL DRYRUN alice set a 1", "$58|This user has no permissions to run the 'set' command|"),
        (
            "ACL LOAD",
            "-ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and \
                      then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis \
                      configuration.|",
        ),
    ] {
        let said = talk.say(&mut admin, line);
        // Only the texts of bulk strings are compared, not their lengths.
        let text = |reply: &str| if reply.starts_with('$') { reply.split_once('|').map(|(_, rest)| rest.to_owned()) } else { None };
        assert_eq!(text(&said).unwrap_or(said), text(reply).unwrap_or(reply.into()), "{line}");
    }
    assert_eq!(talk.say(&mut admin, "ACL GETUSER alice"), before);
    assert_eq!(talk.say(&mut admin, "ACL GENPASS 5").len(), "$2|ab|".len());
    assert_eq!(talk.say(&mut admin, "ACL GENPASS").len(), "$64||".len() + 64);
}

#[test]
fn files_are_loaded_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    std::fs::write(&path, "user alice on nopass ~* +@all\n").unwrap();
    let mut talk = Talk::new();
    talk.server.configuration.acl_file = path.display().to_string();
    talk.server.take_users().unwrap();
    let (mut admin, mut alice) = (talk.client(1), talk.client(2));
    assert_eq!(talk.say(&mut alice, "AUTH alice x"), "+OK|");
    assert_eq!(talk.say(&mut admin, "ACL SETUSER bob on >x ~b +get"), "+OK|");
    assert_eq!(talk.say(&mut admin, "ACL SAVE"), "+OK|");
    let saved = std::fs::read_to_string(&path).unwrap();
    let names: Vec<&str> = saved.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(names, ["alice", "bob", "default"]);
    std::fs::write(&path, "user alice\nuser carol +nosuch\n").unwrap();
    let reply = talk.say(&mut admin, "ACL LOAD");
    assert!(reply.contains(":2: Error in applying operation '+nosuch': Unknown command or category name in ACL. WARNING"), "{reply}");
    assert_eq!(talk.say(&mut alice, "ACL WHOAMI"), "$5|alice|");
    std::fs::write(&path, saved.replace("bob", "carol")).unwrap();
    assert_eq!(talk.say(&mut admin, "ACL LOAD"), "+OK|");
    assert_eq!(talk.say(&mut admin, "ACL USERS"), "*3|$5|alice|$5|carol|$7|default|");
    assert_eq!(talk.server.killed, [2]);
    assert!(talk.say(&mut alice, "GET a").starts_with("-NOPERM"));
    talk.server.configuration.users.push(vec![b"dave".to_vec()]);
    assert!(talk.server.take_users().is_err());
}

/// A relative name of the file is one in the directory of the data, and its users begin with the configured channels.
#[test]
fn files_lie_in_the_directory_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("users.acl"), "user alice on nopass +@all (+get ~x)\nuser bob reset resetchannels\n").unwrap();
    let mut talk = Talk::new();
    talk.server.configuration.directory = folder.path().display().to_string();
    talk.server.configuration.acl_file = "users.acl".into();
    for (channels, alice) in
        [("resetchannels", "resetchannels +@all (~x resetchannels -@all +get)"), ("allchannels", "&* +@all (~x &* -@all +get)")]
    {
        talk.server.configuration.set("acl-pubsub-default", channels).unwrap();
        talk.server.take_users().unwrap();
        let mut admin = talk.client(1);
        let users = [
            format!("user alice on nopass {alice}"),
            "user bob off sanitize-payload resetchannels -@all".into(),
            "user default on nopass ~* &* +@all".into(),
        ];
        let listed = users.map(|user| format!("${}|{user}|", user.len())).concat();
        assert_eq!(talk.say(&mut admin, "ACL LIST"), format!("*3|{listed}"), "{channels}");
        assert_eq!(talk.say(&mut admin, "ACL LOAD"), "+OK|");
        assert_eq!(talk.say(&mut admin, "ACL LIST"), format!("*3|{listed}"), "{channels}");
    }
    let mut admin = talk.client(1);
    assert_eq!(talk.say(&mut admin, "ACL SAVE"), "+OK|");
    assert!(std::fs::read_to_string(folder.path().join("users.acl")).unwrap().contains("user default"));
}

#[test]
fn keys_that_are_found_by_what_is_read_need_all_keys_to_be_readable() {
    let mut talk = talk(&["ACL SETUSER alice on nopass ~l ~out +sort +sort_ro +multi +exec", "SET w_1 5", "SET secret_1 x"]);
    let (mut admin, mut alice) = (talk.client(1), talk.client(2));
    talk.say(&mut admin, "RPUSH l 1");
    talk.say(&mut alice, "AUTH alice x");
    let by = "-ERR BY option of SORT denied due to insufficient ACL permissions.|";
    let get = "-ERR GET option of SORT denied due to insufficient ACL permissions.|";
    for (line, reply) in [
        ("SORT l", "*1|$1|1|"),
        ("SORT l BY nosort", "*1|$1|1|"),
        ("SORT l BY w_*", by),
        ("SORT l GET secret_*", get),
        ("SORT_RO l BY w_*", by),
        ("SORT_RO l GET secret_*", get),
        ("SORT l STORE out", ":1|"),
        ("SORT l STORE other", "-NOPERM this user has no permissions to access one of the keys used as arguments|"),
        ("SORT l STORE out STORE other", "-NOPERM this user has no permissions to access one of the keys used as arguments|"),
        ("SORT l GET # STORE out", get),
    ] {
        assert_eq!(talk.say(&mut alice, line), reply, "{line}");
    }
    // The checks hold in a transaction, too.
    for line in ["MULTI", "SORT l GET secret_*"] {
        talk.say(&mut alice, line);
    }
    assert_eq!(talk.say(&mut alice, "EXEC"), format!("*1|{get}"));
    // Permission to write all keys is not enough, and one selector has to allow the whole request.
    for rules in ["%W~*", "(%R~* +get)", "(~* -sort)"] {
        talk.say(&mut admin, &format!("ACL SETUSER alice resetkeys clearselectors ~l {rules}"));
        assert_eq!(talk.say(&mut alice, "SORT l GET secret_*"), get, "{rules}");
    }
    for rules in ["%R~*", "allkeys"] {
        talk.say(&mut admin, &format!("ACL SETUSER alice resetkeys clearselectors {rules}"));
        assert_eq!(talk.say(&mut alice, "SORT l BY w_* GET secret_*"), "*1|$1|x|", "{rules}");
    }
}

#[test]
fn who_listens_to_what_it_may_not_hear_any_more_is_closed() {
    let mut talk = talk(&["ACL SETUSER alice on nopass &news* &other +@all"]);
    let mut admin = talk.client(1);
    let refused = "-NOPERM this user has no permissions to access one of the channels used as arguments|";
    for (id, line, rules, is_closed) in [
        (2, "SUBSCRIBE news.a", "resetchannels &news.a", false),
        (3, "SUBSCRIBE news.a other", "resetchannels &news*", true),
        (4, "SSUBSCRIBE news.a", "resetchannels &other", true),
        // A pattern has to be granted literally, whatever other patterns match it.
        (5, "PSUBSCRIBE news*", "resetchannels &news.a", true),
        (6, "PSUBSCRIBE news*", "resetchannels &news* &more", false),
        (7, "PSUBSCRIBE news*", "resetchannels allchannels", false),
        (8, "SUBSCRIBE news.a", "reset", true),
        (9, "SUBSCRIBE news.a", "(&news.a) resetchannels", false),
    ] {
        talk.say(&mut admin, "ACL SETUSER alice reset on nopass &news* &other +@all");
        let mut alice = talk.client(id);
        talk.say(&mut alice, "AUTH alice x");
        let reply = talk.say(&mut alice, line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        talk.server.killed.clear();
        talk.say(&mut admin, &format!("ACL SETUSER alice {rules}"));
        assert_eq!(talk.server.killed, if is_closed { vec![id] } else { Vec::new() }, "{line} {rules}");
        talk.server.kill(id);
    }
    talk.say(&mut admin, "ACL SETUSER alice reset on nopass &news* +@all");
    let mut alice = talk.client(20);
    talk.say(&mut alice, "AUTH alice x");
    for line in ["SUBSCRIBE x", "SUBSCRIBE news.a x", "PSUBSCRIBE news.a*", "PSUBSCRIBE *", "SSUBSCRIBE x", "PUBLISH x y", "SPUBLISH x y"] {
        assert_eq!(talk.say(&mut alice, line), refused, "{line}");
    }
    assert_eq!(talk.say(&mut alice, "PUBLISH news.b y"), ":0|");
    // A queued message is sent only if the user may still send it when the transaction runs.
    talk.say(&mut alice, "MULTI");
    assert_eq!(talk.say(&mut alice, "PUBLISH news.b y"), "+QUEUED|");
    talk.say(&mut admin, "ACL SETUSER alice resetchannels");
    assert!(talk.say(&mut alice, "EXEC").ends_with("no permission to access one of the channels used as arguments|"));
}

/// Requests whose keys stand where a simpler parser would not look for them.
#[test]
fn keys_behind_words_are_checked() {
    let mut talk = talk(&["ACL SETUSER alice on nopass ~a ~streams ~store ~d1 +@all"]);
    let (mut admin, mut alice) = (talk.client(1), talk.client(2));
    for line in ["GEOADD a 1 2 x", "GEOADD b 1 2 x", "ZADD z 1 x", "XADD s 1-1 a b", "XGROUP CREATE s streams 0", "RPUSH secret x"] {
        assert!(!talk.say(&mut admin, line).starts_with('-'), "{line}");
    }
    talk.say(&mut alice, "AUTH alice x");
    let refused = "-NOPERM this user has no permissions to access one of the keys used as arguments|";
    for line in [
        "XREAD STREAMS s 0",
        "XREAD COUNT 1 BLOCK 0 STREAMS a s 0 0",
        "XREADGROUP GROUP streams streams STREAMS s >",
        "XREADGROUP COUNT 1 GROUP streams streams STREAMS s >",
        "XREADGROUP NOACK GROUP streams a STREAMS s >",
        "GEORADIUS a 1 2 3 km STORE b",
        "GEORADIUS a 1 2 3 km STORE a STORE b",
        "GEORADIUS a 1 2 3 km STORE STORE STOREDIST b",
        "GEORADIUS a 1 2 3 km STORE store STORE b",
        "GEORADIUSBYMEMBER a x 3 km STORE b",
        "GEORADIUSBYMEMBER a x 3 km COUNT 1 STORE store STOREDIST b",
        "GEOSEARCHSTORE a b FROMLONLAT 1 2 BYRADIUS 3 km",
        "GEOSEARCHSTORE b a FROMLONLAT 1 2 BYRADIUS 3 km",
        "ZUNIONSTORE a 2 a z",
        "ZUNIONSTORE z 1 a",
        "ZINTERSTORE a 2 a z WEIGHTS 1 1",
        "ZDIFFSTORE a 2 a z",
        "ZUNION 2 a z",
        "SINTERCARD 2 a secret",
        "ZMPOP 2 a z MIN",
        "LMPOP 2 a secret LEFT",
        "BLMPOP 0 2 a secret LEFT",
        "BZMPOP 0 2 a z MIN",
        "BLPOP a secret 0",
        "BZPOPMIN a z 0",
        "BITOP AND a a secret",
        "BITOP AND secret a",
        "PFMERGE a secret",
        "PFCOUNT a secret",
        "LCS a secret",
        "MSET a 1 secret 2",
        "COPY secret a",
        "COPY a secret",
        "SMOVE secret a x",
        "RENAME a secret",
        "OBJECT ENCODING secret",
        "MEMORY USAGE secret",
        "XINFO STREAM s",
        "XGROUP CREATE s other 0",
        "RESTORE secret 0 x",
        "WATCH a secret",
        "EVAL x 1 secret",
        "ZRANGESTORE a z 0 1",
    ] {
        assert_eq!(talk.say(&mut alice, line), refused, "{line}");
    }
    assert!(!alice.is_waiting());
    assert_eq!(talk.say(&mut alice, "FCALL f 1 a"), "-ERR Function not found|");
}
