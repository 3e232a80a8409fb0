-- The learner: where each task stands in each conversation, and what it found.

CREATE TABLE learner_cursors (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    task            text NOT NULL CHECK (task IN ('terms', 'topics', 'memories', 'slang', 'expressions', 'profiles')),
    pos             bigint NOT NULL DEFAULT 0,    -- the last position that is learned
    failures        integer NOT NULL DEFAULT 0,   -- in a row
    retry_at        timestamptz,                  -- not before; null: at once
    last_error      text,
    ran_at          timestamptz,                  -- the last run that ended, well or not
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, task)
);

-- Messages that no model call with them in it could answer: skipped by that task.
CREATE TABLE learner_skipped (
    message    bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    task       text NOT NULL,
    reason     text NOT NULL DEFAULT '',
    skipped_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (message, task)
);

CREATE TABLE topics (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    first_at        timestamptz NOT NULL,         -- of its first and last message
    last_at         timestamptz NOT NULL,
    last_pos        bigint NOT NULL,
    stale           boolean NOT NULL DEFAULT true, -- wants a new summary
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX topics_conversation ON topics (conversation_id, last_pos DESC);
CREATE INDEX topics_stale ON topics (conversation_id, last_pos) WHERE stale;

-- A message belongs to one topic or to none.
CREATE TABLE topic_messages (
    message  bigint PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    topic_id bigint NOT NULL REFERENCES topics ON DELETE CASCADE
);
CREATE INDEX topic_messages_topic ON topic_messages (topic_id, message);

CREATE TABLE topic_summaries (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id     bigint NOT NULL REFERENCES topics ON DELETE CASCADE,
    version      integer NOT NULL,
    title        text NOT NULL CHECK (char_length(title) <= 60),
    gist         text NOT NULL CHECK (char_length(gist) <= 500),
    participants bigint[] NOT NULL DEFAULT '{}',  -- who wrote its sources
    open_loops   text[] NOT NULL DEFAULT '{}',
    keywords     text[] NOT NULL DEFAULT '{}',
    search       text NOT NULL,
    sources      bigint[] NOT NULL,               -- row ids of all messages it stands on, those of what it was built on too
    upto_pos     bigint NOT NULL,                 -- the highest position among them
    dropped_at   timestamptz,                     -- a source was withdrawn: its words are gone
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (topic_id, version),
    CHECK ((dropped_at IS NULL) = (title <> '' AND gist <> ''))
);

CREATE TABLE slang (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    term            text NOT NULL CHECK (char_length(term) BETWEEN 1 AND 40),
    term_key        text NOT NULL,                -- the same for spellings that are one term: NFKC, folded
    meaning         text NOT NULL DEFAULT '' CHECK (char_length(meaning) <= 500),       -- here, from how it is used
    meaning_plain   text NOT NULL DEFAULT '' CHECK (char_length(meaning_plain) <= 500), -- what it says without context
    note            text NOT NULL DEFAULT '' CHECK (char_length(note) <= 500),          -- a moderator's
    status          text NOT NULL DEFAULT 'candidate' CHECK (status IN ('candidate', 'approved', 'rejected')),
    locked          boolean NOT NULL DEFAULT false,   -- a person wrote or edited it: no job changes its text
    decided_by      text,                         -- who approved or rejected it: api, a QQ number, auto; null: nobody yet
    source          text NOT NULL CHECK (source IN ('miner', 'model', 'person')),
    score           double precision NOT NULL DEFAULT 0,  -- the miner's, 0..1
    confidence      double precision,             -- the model's, 0..1; null: not asked yet
    denied          integer NOT NULL DEFAULT 0,   -- times that the model saw it and did not confirm it
    occurrences     integer NOT NULL DEFAULT 0,   -- messages that hold it or a variant
    speakers        integer NOT NULL DEFAULT 0,   -- people who said it
    days            integer NOT NULL DEFAULT 0,   -- local days on which it was said
    first_seen      timestamptz,
    last_seen       timestamptz,
    inferred_at     integer NOT NULL DEFAULT 0,   -- occurrences when its meaning was last inferred
    merged_into     bigint REFERENCES slang ON DELETE SET NULL,
    version         integer NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (conversation_id, term_key)
);
CREATE INDEX slang_status ON slang (conversation_id, status, id DESC);

-- Other spellings under one term. A spelling belongs to one term of a conversation.
CREATE TABLE slang_variants (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    variant_key     text NOT NULL,
    variant         text NOT NULL CHECK (char_length(variant) BETWEEN 1 AND 40),
    slang_id        bigint NOT NULL REFERENCES slang ON DELETE CASCADE,
    PRIMARY KEY (conversation_id, variant_key)
);
CREATE INDEX slang_variants_slang ON slang_variants (slang_id);

CREATE TABLE slang_evidence (
    slang_id bigint NOT NULL REFERENCES slang ON DELETE CASCADE,
    message  bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (slang_id, message)
);
CREATE INDEX slang_evidence_message ON slang_evidence (message);

-- What its meaning was after each inference or edit.
CREATE TABLE slang_meanings (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slang_id      bigint NOT NULL REFERENCES slang ON DELETE CASCADE,
    occurrences   integer NOT NULL,
    meaning       text NOT NULL,
    meaning_plain text NOT NULL DEFAULT '',
    confidence    double precision,
    change        text NOT NULL DEFAULT '',       -- how it differs from the one before, in words
    source        text NOT NULL CHECK (source IN ('model', 'person')),
    sources       bigint[] NOT NULL DEFAULT '{}', -- row ids of the messages it was inferred from
    made_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX slang_meanings_slang ON slang_meanings (slang_id, id);
CREATE INDEX slang_meanings_sources ON slang_meanings USING gin (sources);

CREATE TABLE expressions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    situation       text NOT NULL CHECK (char_length(situation) BETWEEN 1 AND 100),
    phrase          text NOT NULL CHECK (char_length(phrase) BETWEEN 1 AND 100),
    pair_key        text NOT NULL,                -- the same for pairs that say the same, letter for letter
    phrase_key      text NOT NULL,
    search          text NOT NULL,                -- of the situation
    phrase_search   text NOT NULL,
    space_id        integer REFERENCES embedding_spaces,
    embedding       halfvec,                      -- of the situation
    note            text NOT NULL DEFAULT '' CHECK (char_length(note) <= 500),
    status          text NOT NULL DEFAULT 'candidate' CHECK (status IN ('candidate', 'approved', 'rejected')),
    locked          boolean NOT NULL DEFAULT false,
    decided_by      text,
    source          text NOT NULL CHECK (source IN ('model', 'person')),
    confidence      double precision,
    merged_into     bigint REFERENCES expressions ON DELETE SET NULL,
    first_seen      timestamptz,
    last_seen       timestamptz,
    version         integer NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    CHECK ((space_id IS NULL) = (embedding IS NULL)),
    UNIQUE (conversation_id, pair_key)
);
CREATE INDEX expressions_status ON expressions (conversation_id, status, id DESC);

CREATE TABLE expression_evidence (
    expression_id bigint NOT NULL REFERENCES expressions ON DELETE CASCADE,
    message       bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    added_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (expression_id, message)
);
CREATE INDEX expression_evidence_message ON expression_evidence (message);

-- Profiles: the traits of one member in one group.
CREATE TABLE traits (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    user_id         bigint NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('alias', 'interest', 'style', 'relation', 'fact')),
    content         text NOT NULL CHECK (char_length(content) BETWEEN 1 AND 200),
    content_key     text NOT NULL,
    sensitive       boolean NOT NULL DEFAULT false,
    locked          boolean NOT NULL DEFAULT false,
    source          text NOT NULL CHECK (source IN ('model', 'person')),
    dropped_at      timestamptz,
    dropped_why     text,                         -- changed, contradicted, withdrawn, person
    version         integer NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX traits_one ON traits (conversation_id, user_id, kind, content_key) WHERE dropped_at IS NULL;
CREATE INDEX traits_member ON traits (conversation_id, user_id, id);

CREATE TABLE trait_evidence (
    trait_id bigint NOT NULL REFERENCES traits ON DELETE CASCADE,
    message  bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (trait_id, message)
);
CREATE INDEX trait_evidence_message ON trait_evidence (message);

-- What an act of moderation was about, and whether it was taken back.
ALTER TABLE audit ADD COLUMN target_kind text;    -- slang, expression, trait, memory, conversation; null: cannot be undone
ALTER TABLE audit ADD COLUMN target_id bigint;
ALTER TABLE audit ADD COLUMN undone_at timestamptz;
ALTER TABLE audit ADD COLUMN undoes bigint REFERENCES audit ON DELETE SET NULL;
CREATE INDEX audit_conversation ON audit (conversation_id, id DESC);
CREATE INDEX audit_target ON audit (target_kind, target_id, id DESC) WHERE target_kind IS NOT NULL;
