"""moto_server with one of its faults mended.

moto parses the user data of a launch template's first version only, and then starts no instance from
a later one: it asserts that the text was parsed. AWS starts it. A launch template gets a second version
whenever a slot changes, so drills that pause and resume after a change need this.
"""

from moto.ec2.models import launch_templates
from moto.ec2.utils import parse_user_data
from moto.server import main


def user_data(version):
    text = version.data.get("UserData")
    return parse_user_data(text) if isinstance(text, str) else text


launch_templates.LaunchTemplateVersion.user_data = property(user_data)
main()
