"""moto_server with two of its faults fixed.

moto parses the user data of a launch template's first version only, and then starts no instance from
a later one: it asserts that the text was parsed. AWS starts it. A launch template gets a second version
whenever a slot changes, so drills that pause and resume after a change need this.

moto serves requests on many threads without locks. Of two that change one object at the same time, one
can be undone: a security group can keep a rule that was revoked, and Terraform then fails. Requests are
served one at a time here, which costs nothing: it is one Python process.
"""

from threading import Lock

from moto.ec2.models import launch_templates
from moto.ec2.utils import parse_user_data
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main


def user_data(version):
    text = version.data.get("UserData")
    return parse_user_data(text) if isinstance(text, str) else text


launch_templates.LaunchTemplateVersion.user_data = property(user_data)

one_at_a_time = Lock()
serve = DomainDispatcherApplication.__call__


def serve_alone(application, environ, start_response):
    with one_at_a_time:
        return serve(application, environ, start_response)


DomainDispatcherApplication.__call__ = serve_alone
main()
