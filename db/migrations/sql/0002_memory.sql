-- Memories with their evidence, embeddings, message search, the working note, mood, liking and who is not learned.

-- One model with one dimension: vectors of different spaces are never compared.
CREATE TABLE embedding_spaces (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model      text NOT NULL,
    dim        integer NOT NULL CHECK (dim BETWEEN 1 AND 16000),
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (model, dim)
);

CREATE TABLE memories (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    subject_kind    text NOT NULL CHECK (subject_kind IN ('member', 'group', 'bot')),
    subject_id      bigint NOT NULL DEFAULT 0,    -- a member's QQ number; 0 for the group and the bot
    kind            text NOT NULL CHECK (kind IN ('fact', 'preference', 'constraint', 'goal', 'event')),
    content         text NOT NULL CHECK (char_length(content) BETWEEN 1 AND 500),
    content_key     text NOT NULL,                -- the same for texts that say the same, letter for letter
    search          text NOT NULL,                -- what the text leg looks in
    space_id        integer REFERENCES embedding_spaces,
    embedding       halfvec,
    status          text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    archived_why    text,                         -- refined, superseded, withdrawn, agent, person
    archived_at     timestamptz,
    locked          boolean NOT NULL DEFAULT false,   -- a person wrote or edited it: no job changes it
    source          text NOT NULL CHECK (source IN ('agent', 'learner', 'person', 'import')),
    turn_id         bigint REFERENCES turns ON DELETE SET NULL,
    version         integer NOT NULL DEFAULT 1,
    uses            integer NOT NULL DEFAULT 0,
    used_at         timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    CHECK ((subject_kind = 'member') = (subject_id <> 0)),
    CHECK ((space_id IS NULL) = (embedding IS NULL)),
    CHECK ((status = 'archived') = (archived_at IS NOT NULL))
) WITH (fillfactor = 85);
ALTER TABLE memories ALTER COLUMN embedding SET STORAGE MAIN;
CREATE UNIQUE INDEX memories_one_claim ON memories (conversation_id, subject_kind, subject_id, kind, content_key)
    WHERE status = 'active';
-- Rows that wait to be sorted in are read by every search: few of them.
CREATE INDEX memories_text ON memories USING gin ((ARRAY[conversation_id]), search gin_trgm_ops)
    WITH (gin_pending_list_limit = 256);
CREATE INDEX memories_subject ON memories (conversation_id, subject_kind, subject_id, id DESC);
CREATE INDEX memories_space ON memories (space_id, id);
CREATE INDEX memories_turn ON memories (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE memory_evidence (
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    message   bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    added_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (memory_id, message)
);
CREATE INDEX memory_evidence_message ON memory_evidence (message);

-- How claims followed each other. refines: the new text holds the old one's; supersedes: it took its place;
-- contradicts: both stand.
CREATE TABLE memory_links (
    old_id     bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    new_id     bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    relation   text NOT NULL CHECK (relation IN ('refines', 'supersedes', 'contradicts')),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (old_id, new_id)
);
CREATE INDEX memory_links_new ON memory_links (new_id);

-- Which turn's prompt held which memory.
CREATE TABLE memory_uses (
    turn_id   bigint NOT NULL REFERENCES turns ON DELETE CASCADE,
    memory_id bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    PRIMARY KEY (turn_id, memory_id)
);
CREATE INDEX memory_uses_memory ON memory_uses (memory_id);

ALTER TABLE messages ADD COLUMN search text;      -- null: stored before there was a search, still to be filled
CREATE INDEX messages_text ON messages USING gin ((ARRAY[conversation_id]), search gin_trgm_ops);
CREATE INDEX messages_unsearchable ON messages (id DESC) WHERE search IS NULL;
CREATE INDEX messages_time ON messages (conversation_id, sent_at);

-- Messages worth a vector; without one yet, they wait for it.
CREATE TABLE message_vectors (
    message         bigint PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    space_id        integer REFERENCES embedding_spaces,
    embedding       halfvec,
    CHECK ((space_id IS NULL) = (embedding IS NULL))
);
ALTER TABLE message_vectors ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX message_vectors_space ON message_vectors (space_id, message DESC);
CREATE INDEX message_vectors_conversation ON message_vectors (conversation_id, message DESC);

CREATE TABLE notes (
    conversation_id bigint PRIMARY KEY REFERENCES conversations ON DELETE CASCADE,
    content         text NOT NULL CHECK (char_length(content) <= 300),
    updated_at      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE moods (
    conversation_id bigint PRIMARY KEY REFERENCES conversations ON DELETE CASCADE,
    valence         double precision NOT NULL CHECK (valence BETWEEN -1 AND 1),
    energy          double precision NOT NULL CHECK (energy BETWEEN -1 AND 1),
    sociability     double precision NOT NULL CHECK (sociability BETWEEN -1 AND 1),
    updated_at      timestamptz NOT NULL
);

CREATE TABLE intimacy (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    user_id         bigint NOT NULL,
    score           double precision NOT NULL CHECK (score BETWEEN -100 AND 100),
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (conversation_id, user_id)
);

CREATE TABLE intimacy_log (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    user_id         bigint NOT NULL,
    turn_id         bigint REFERENCES turns ON DELETE SET NULL,
    step            integer NOT NULL CHECK (step IN (-2, -1, 1, 2)),
    reason          text NOT NULL CHECK (char_length(reason) <= 200),
    score           double precision NOT NULL,    -- after the step
    at              timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX intimacy_once ON intimacy_log (turn_id, user_id) WHERE turn_id IS NOT NULL;
CREATE INDEX intimacy_member ON intimacy_log (conversation_id, user_id, id DESC);

-- Members who said 别记我.
CREATE TABLE unlearned (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    user_id         bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, user_id)
);

-- In how many texts a term stands, counted now and then over a sample: rare terms tell more.
CREATE TABLE search_terms (
    term text PRIMARY KEY,
    df   integer NOT NULL
);
CREATE TABLE search_stats (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    documents  integer NOT NULL,
    counted_at timestamptz NOT NULL DEFAULT now()
);
