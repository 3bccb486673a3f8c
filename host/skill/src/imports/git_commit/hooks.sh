# Runs hooks of a commit in the sandbox. Arguments: the folder of the hooks, the branch (empty: a detached head), `parent`
# where there is a commit before this one, and the names of the hooks. `.git` is not there: the hooks get a repository that
# holds the files of this commit alone.
set -u
own=$HOME/.tool-commit top=$PWD folder=$1 branch=$2 parent=$3
shift 3

quiet() { git -c core.hooksPath=/dev/null "$@" >/dev/null 2>&1; }

fail() {
    echo 'the commit could not be shown to its hooks' >&2
    exit 125
}

mkdir -p .git/hooks
if command -v git >/dev/null; then
    quiet init || fail
    quiet config core.fileMode false
    rm -f .git/hooks/*
    if [ -n "$branch" ]; then quiet symbolic-ref HEAD "refs/heads/$branch"; fi
    if [ -n "$parent" ]; then
        if [ -d "$own/base" ]; then
            (cd "$own/base" && quiet --git-dir="$top/.git" --work-tree=. add -f -A .) || fail
        fi
        quiet commit --allow-empty -m 'The last commit' || fail
    fi
    # A folder that became a link or a file: git adds no path beyond one.
    quiet update-index --force-remove -z --stdin <"$own/removed" || fail
    # Without a path, all files would be added.
    if [ -s "$own/paths" ]; then
        GIT_LITERAL_PATHSPECS=1 quiet add -f -A --pathspec-from-file="$own/paths" --pathspec-file-nul || fail
    fi
fi
if [ -d "$own/hooks" ]; then
    cp "$own/hooks"/* .git/hooks/
    chmod +x .git/hooks/*
fi
cp "$own/message" .git/COMMIT_EDITMSG
for hook; do
    printf %s "$hook" >.git/tool-hook
    case $hook in
    prepare-commit-msg) "$folder/$hook" .git/COMMIT_EDITMSG message ;;
    commit-msg) "$folder/$hook" .git/COMMIT_EDITMSG ;;
    post-commit) quiet commit -F .git/COMMIT_EDITMSG; "$folder/$hook" ;;
    *) "$folder/$hook" ;;
    esac || exit
done
